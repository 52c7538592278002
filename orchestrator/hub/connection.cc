#include "orchestrator/hub/connection.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "orchestrator/base/clock.h"
#include "orchestrator/base/utf8.h"
#include "orchestrator/diag/rules/http.h"
#include "orchestrator/diag/rules/hub.h"
#include "orchestrator/diag/terminal_text.h"
#include "orchestrator/http/request.h"
#include "orchestrator/http/url.h"

namespace sweep::hub {

namespace {

using std::chrono::milliseconds;

constexpr int kFirstError = 400;

// As people know it: without the "/" that a URL without a path gets.
std::string name_of(const std::string& endpoint) {
  std::string name = http::display_url(endpoint);
  while (name.ends_with('/')) name.pop_back();
  return name;
}

std::string subject_of(const Call& call) {
  std::string subject = fmt::format("\"{}\"", call.about.model);
  if (!call.about.revision.empty()) subject += fmt::format(" at {}", diag::printable(call.about.revision));
  if (!call.file.empty()) subject += fmt::format(", file \"{}\"", diag::printable(call.file));
  return subject;
}

}  // namespace

Connection::Connection(ConnectionOptions options)
    : options_(std::move(options)), name_(name_of(options_.settings.endpoint)), random_(options_.policy.seed) {}

http::Request Connection::request_for(const Call& call) const {
  const Settings& settings = options_.settings;
  const milliseconds total =
      call.method == http::Method::kHead ? settings.head_timeout.value_or(settings.timeout) : settings.timeout;
  const milliseconds silence = total / 2;
  http::Request request{.url = call.url,
                        // What is compressed on the way has other lengths than the file.
                        .headers = {{"Accept-Encoding", "identity"}},
                        .body = call.form,
                        .timeouts = {.connect = std::min(milliseconds(10'000), total),
                                     .first_byte = silence,
                                     .idle = silence,
                                     .total = total},
                        .max_bytes = call.max_bytes,
                        .ca_file = settings.ca_file};
  const auto origin = http::origin_of(call.url);
  if (settings.token && origin && *origin == http::origin_of(settings.endpoint).value())
    request.credentials.push_back({"Authorization", "Bearer " + *settings.token});
  return request;
}

diag::Result<http::Answer> Connection::send(const Call& call) {
  const http::Request request = request_for(call);
  for (int tries = 1;; ++tries) {
    auto answer = http::send_following(call.method, request, call.redirects, options_.stop);
    if (answer && answer->response.head.status < kFirstError) return answer;
    if (auto problem = final_problem(call, answer, tries)) return diag::fail(std::move(*problem));
    std::optional<std::chrono::seconds> asked;
    if (answer) asked = asked_wait(answer->response.head, options_.waiting.unix_ns());
    const milliseconds wait = asked ? milliseconds(*asked) : backoff(options_.policy, tries, random_);
    if (options_.on_retry)
      options_.on_retry(
          {.reason = answer ? fmt::format("{} answered {}", who_answered(*answer), answer->response.head.status)
                            : answer.error().message,
           .wait = wait,
           .next_try = tries + 1,
           .tries = options_.policy.tries});
    if (!options_.waiting.wait(wait, options_.stop))
      return diag::fail(diag::rule::http_cancelled, "interrupted while waiting to ask the hub again");
  }
}

std::optional<diag::Diagnostic> Connection::final_problem(const Call& call, const diag::Result<http::Answer>& answer,
                                                          int tries) const {
  const bool last = tries >= options_.policy.tries;
  if (!answer) {
    if (passes(answer.error()) && !last) return std::nullopt;
    diag::Diagnostic problem = answer.error();
    if (passes(problem)) problem.message += fmt::format("; tried {} times", tries);
    advise(call, problem);
    return problem;
  }
  if (!passes(answer->response.head.status)) return refusal(call, *answer);
  const auto asked = asked_wait(answer->response.head, options_.waiting.unix_ns());
  if (asked && *asked > options_.policy.longest_asked) return asks_too_much(*answer, *asked);
  if (last) return trouble(*answer, tries);
  return std::nullopt;
}

// The hub, or the host that it led to.
std::string Connection::who_answered(const http::Answer& answer) const {
  const auto origin = http::origin_of(answer.url);
  return origin && *origin == http::origin_of(endpoint()).value() ? name() : http::display_url(answer.url);
}

std::string Connection::quoted(std::string_view text) const {
  constexpr size_t kLongest = 300;
  constexpr std::string_view kHidden = "***";
  std::string shown(text);
  // Before anything is cut off: a part of the token is a secret, too.
  if (const auto& token = options_.settings.token)
    for (size_t at = shown.find(*token); at != std::string::npos; at = shown.find(*token, at + kHidden.size()))
      shown.replace(at, token->size(), kHidden);
  shown.resize(std::min(shown.size(), 4 * kLongest));
  std::string line;
  for (const diag::Cell& cell : diag::cells_of(base::valid_utf8(shown))) {
    if (line.size() + cell.shown.size() > kLongest) return line + "...";
    line += cell.shown;
  }
  return line;
}

// The reason that the hub gives, as ": text"; empty without one.
std::string Connection::said_by(const http::Response& reply) const {
  std::string text(reply.head.header("x-error-message"));
  if (text.empty()) {
    const auto json = nlohmann::json::parse(reply.body, nullptr, false);
    if (json.is_object() && json.contains("error") && json["error"].is_string()) text = json["error"];
  }
  return text.empty() ? std::string() : fmt::format(": {}", quoted(text));
}

// What helps against a failed transfer, where it is a hub that is asked.
void Connection::advise(const Call& call, diag::Diagnostic& failure) const {
  if (failure.rule == diag::rule::http_connect_failed || failure.rule == diag::rule::http_connect_timeout)
    failure.help += fmt::format("{}HF_ENDPOINT names another hub, and --from-listing FILE needs none",
                                failure.help.empty() ? "" : "; ");
  const bool is_slow = failure.rule == diag::rule::http_total_timeout ||
                       failure.rule == diag::rule::http_first_byte_timeout ||
                       failure.rule == diag::rule::http_idle_timeout;
  if (is_slow)
    failure.help = fmt::format(
        "the hub, or the way to it, is slow: {} allows more",
        call.method == http::Method::kHead && options_.settings.head_timeout ? "HF_HUB_ETAG_TIMEOUT" : "--timeout S");
  if (failure.rule == diag::rule::http_cut) failure.help = "the hub, or a proxy on the way, closed it: try again later";
}

diag::Diagnostic Connection::refusal(const Call& call, const http::Answer& answer) const {
  const http::Response& reply = answer.response;
  const int status = reply.head.status;
  if (const std::string who = who_answered(answer); who != name())
    return diag::make(diag::rule::hub_bad_reply,
                      fmt::format("{}, where the hub led to for {}, answered {}", who, subject_of(call), status),
                      "such addresses expire: try again");
  const std::string_view code = reply.head.header("x-error-code");
  const std::string subject = subject_of(call);
  const std::string said = said_by(reply);
  const std::string page = fmt::format("{}/{}", name(), call.about.model);
  const bool has_token = options_.settings.token.has_value();
  if (code == "GatedRepo")
    return diag::make(
        diag::rule::hub_gated, fmt::format("{} is gated{}", subject, said),
        fmt::format("accept its terms at {}, {}", page,
                    has_token ? "with the account that the token belongs to" : "then put your token into HF_TOKEN"));
  if (code == "RevisionNotFound")
    return diag::make(diag::rule::hub_no_revision, fmt::format("the hub has no {}{}", subject, said),
                      fmt::format("its commits are at {}/commits/main", page));
  if (code == "EntryNotFound")
    return diag::make(diag::rule::hub_no_file, fmt::format("the hub has no {}{}", subject, said));
  const std::string spelling = has_token ? "check the spelling, and that the token in use may read it"
                                         : "check the spelling; a private repository needs a token in HF_TOKEN";
  if (code == "RepoNotFound" && (status == 404 || has_token))
    return diag::make(diag::rule::hub_no_repository, fmt::format("the hub has no repository {}{}", subject, said),
                      spelling);
  if (status == 401 || status == 403)
    return diag::make(diag::rule::hub_no_access,
                      fmt::format("the hub refuses access to {} (status {}): it does not exist, is private, or {}{}",
                                  subject, status, has_token ? "the token is not valid" : "wants a token", said),
                      spelling);
  if (status == 407)
    return diag::make(diag::rule::http_proxy, fmt::format("{}: the proxy answered 407", http::display_url(answer.url)),
                      "it wants a user and password: http://USER:PASSWORD@HOST:PORT in http_proxy");
  if (status == 404)
    return diag::make(diag::rule::hub_no_repository,
                      fmt::format("the hub knows nothing about {} (status 404){}", subject, said),
                      fmt::format("check the name and that {} is a hub", name()));
  return diag::make(diag::rule::hub_bad_reply,
                    fmt::format("{}: unexpected status {}{}", http::display_url(answer.url), status, said));
}

diag::Diagnostic Connection::trouble(const http::Answer& answer, int tries) const {
  const http::ReplyHead& reply = answer.response.head;
  if (reply.status == http::status::kTooManyRequests)
    return diag::make(
        diag::rule::hub_rate_limited,
        fmt::format("{}: the hub wants fewer requests; tried {} times", http::display_url(answer.url), tries),
        options_.settings.token ? "try again in some minutes"
                                : "try again in some minutes; with a token in HF_TOKEN the hub allows more");
  return diag::make(diag::rule::hub_unavailable,
                    fmt::format("{}: status {}; tried {} times", http::display_url(answer.url), reply.status, tries),
                    "the hub is out of order: try again later");
}

diag::Diagnostic Connection::asks_too_much(const http::Answer& answer, std::chrono::seconds wait) const {
  const http::ReplyHead& reply = answer.response.head;
  return diag::make(
      reply.status == http::status::kTooManyRequests ? diag::rule::hub_rate_limited : diag::rule::hub_unavailable,
      fmt::format("{}: the hub answered {} and asks to wait {} s", http::display_url(answer.url), reply.status,
                  wait.count()),
      fmt::format("come back after {}",
                  base::utc_text(options_.waiting.unix_ns() + wait.count() * base::kNanosecondsPerSecond)));
}

}  // namespace sweep::hub
