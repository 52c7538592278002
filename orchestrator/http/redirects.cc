#include "orchestrator/http/redirects.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "orchestrator/base/clock.h"
#include "orchestrator/diag/rules/http.h"
#include "orchestrator/http/client.h"
#include "orchestrator/http/url.h"

namespace sweep::http {

namespace {

bool is_redirect(int status, Method method) {
  if (status == 307 || status == 308) return true;
  return method != Method::kPost && (status == 301 || status == 302 || status == 303);
}

base::Unexpected<diag::Diagnostic> refused(const std::string& from, std::string_view reason) {
  return diag::fail(diag::rule::http_redirect, fmt::format("{}: {}", display_url(from), reason));
}

}  // namespace

diag::Result<Answer> send_following(Method method, const Request& request, Redirects redirects,
                                    const std::stop_token& stop) {
  const int64_t begun_ns = base::monotonic_ns();
  Request next = request;
  for (int followed = 0;; ++followed) {
    const auto origin = origin_of(next.url);
    if (!origin) return diag::fail(origin.error());
    auto response = send(method, next, stop);
    if (!response) return diag::fail(std::move(response).error());
    if (!is_redirect(response->head.status, method)) return Answer{std::move(*response), std::move(next.url)};

    const std::string location(response->head.header("location"));
    if (location.empty()) return refused(next.url, "a redirect does not say where to");
    auto target = resolve_reference(next.url, location);
    if (!target) return refused(next.url, "a redirect leads to something that is not a URL of a web server");
    const Origin target_origin = origin_of(*target).value();
    if (redirects == Redirects::kSameOrigin && target_origin != *origin)
      return Answer{std::move(*response), std::move(next.url)};
    if (origin->scheme == "https" && target_origin.scheme != "https")
      return refused(next.url, fmt::format("a redirect leads from https to {}, which anybody in between can change",
                                           display_url(*target)));
    if (followed == kMostRedirects)
      return refused(next.url,
                     fmt::format("more than {} redirects, the next one to {}", kMostRedirects, display_url(*target)));
    // Never given again, even if a later redirect leads back: the way there was not ours.
    if (target_origin != *origin) next.credentials.clear();
    next.url = std::move(*target);
    if (request.timeouts.total.count() > 0) {
      const std::chrono::milliseconds passed((base::monotonic_ns() - begun_ns) / base::kNanosecondsPerMillisecond);
      next.timeouts.total = std::max(std::chrono::milliseconds(1), request.timeouts.total - passed);
    }
  }
}

}  // namespace sweep::http
