#include "orchestrator/http/client.h"

#include <utility>

#include "orchestrator/http/streams.h"

namespace sweep::http {

diag::Result<Response> send(Method method, Request request, const std::stop_token& stop) {
  auto streams = Streams::open(stop);
  if (!streams) return diag::fail(std::move(streams).error());
  Response response;
  std::optional<diag::Diagnostic> error;
  streams->start(method, std::move(request),
                 {.head = {},
                  .bytes = [&](std::string_view bytes, int64_t) { response.body.append(bytes); },
                  .end =
                      [&](const StreamEnd& end) {
                        response.head = end.head;
                        error = end.error;
                      }});
  constexpr std::chrono::milliseconds kLongestWait{1000};
  while (streams->active() != 0) streams->poll(kLongestWait);
  if (error) return diag::fail(std::move(*error));
  return response;
}

}  // namespace sweep::http
