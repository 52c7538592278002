#include "orchestrator/http/streams.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <thread>
#include <vector>

#include "orchestrator/base/clock.h"
#include "orchestrator/base/file.h"
#include "orchestrator/diag/rules/http.h"
#include "tests/support/catch.h"
#include "tests/support/http_server.h"

namespace sweep::http {

namespace {

using std::chrono::milliseconds;
using test::HttpRequest;
using test::HttpServer;
using test::Reply;

Streams open_streams(std::stop_token stop = {}) {
  auto streams = Streams::open(std::move(stop));
  REQUIRE(streams.has_value());
  return std::move(*streams);
}

void drain(Streams& streams) {
  while (streams.active() != 0) streams.poll(milliseconds(1000));
}

}  // namespace

TEST_CASE("streams: head, bytes and end arrive in this order, with ascending times") {
  const HttpServer server([](const HttpRequest&, Reply& reply) {
    reply.head(201, "text/event-stream");
    for (int i = 0; i < 5; ++i) {
      reply.piece(fmt::format("{}", i));
      if (!reply.wait(milliseconds(2))) return;
    }
    reply.end();
  });
  Streams streams = open_streams();
  std::string order;
  std::string body;
  std::vector<int64_t> times{base::monotonic_ns()};
  streams.start(Method::kGet, {.url = server.url()},
                {.head = [&](const ReplyHead& head) { order += head.status == 201 ? "h" : "?"; },
                 .bytes =
                     [&](std::string_view bytes, int64_t ns) {
                       order += order.ends_with('b') ? "" : "b";
                       body += bytes;
                       times.push_back(ns);
                     },
                 .end =
                     [&](const StreamEnd& end) {
                       order += end.error ? "?" : "e";
                       times.push_back(end.ended_ns);
                     }});
  drain(streams);
  CHECK(order == "hbe");
  CHECK(body == "01234");
  CHECK(std::is_sorted(times.begin(), times.end()));
  CHECK(times.size() > 3);
}

TEST_CASE("streams: bytes are stamped when they arrive, not when they are read") {
  constexpr int kPieces = 50;
  std::atomic<int> wanted = 0;
  std::atomic<int> sent = 0;
  std::vector<int64_t> sent_ns(kPieces);
  const HttpServer server([&](const HttpRequest&, Reply& reply) {
    reply.head(200, "text/plain");
    for (int i = 0; i < kPieces; ++i) {
      while (wanted.load() <= i)
        if (!reply.wait(milliseconds(0))) return;
      sent_ns[static_cast<size_t>(i)] = base::monotonic_ns();
      reply.piece("x");
      sent = i + 1;
    }
    reply.end();
  });
  Streams streams = open_streams();
  std::vector<int64_t> received_ns;
  streams.start(Method::kGet, {.url = server.url()},
                {.head = {}, .bytes = [&](std::string_view, int64_t ns) { received_ns.push_back(ns); }, .end = {}});
  int before_reading = 0;
  for (int i = 0; i < kPieces; ++i) {
    ++wanted;
    if (i > 0)  // the first piece comes with the request's own traffic
      while (sent.load() <= i) std::this_thread::yield();
    const int64_t reading_ns = base::monotonic_ns();
    while (received_ns.size() <= static_cast<size_t>(i)) streams.poll(milliseconds(1000));
    CHECK(received_ns.back() >= sent_ns[static_cast<size_t>(i)]);
    if (received_ns.back() < reading_ns) ++before_reading;
  }
  drain(streams);
  CHECK(std::is_sorted(received_ns.begin(), received_ns.end()));
  const base::FileDescriptor probe(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  if (::setsockopt(probe.get(), SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on) != 0)
    SWEEP_SKIP("this kernel does not stamp what arrives");
  // The kernel may take a moment to begin.
  CHECK(before_reading > 0);
}

TEST_CASE("streams: many at once are kept apart") {
  constexpr int kStreams = 200;
  const HttpServer server([](const HttpRequest& request, Reply& reply) {
    reply.head(200, "text/plain");
    for (int i = 0; i < 10; ++i) reply.piece(request.target);
    reply.end();
  });
  Streams streams = open_streams();
  std::map<int, std::string> bodies;
  int ended = 0;
  for (int i = 0; i < kStreams; ++i)
    streams.start(Method::kGet, {.url = fmt::format("{}/{}", server.url(), i)},
                  {.head = {},
                   .bytes = [&bodies, i](std::string_view bytes, int64_t) { bodies[i] += bytes; },
                   .end = [&](const StreamEnd& end) { ended += end.error ? 0 : 1; }});
  CHECK(streams.active() == kStreams);
  drain(streams);
  CHECK(ended == kStreams);
  for (int i = 0; i < kStreams; ++i) {
    std::string expected;
    for (int k = 0; k < 10; ++k) expected += fmt::format("/{}", i);
    CHECK(bodies[i] == expected);
  }
}

TEST_CASE("streams: an end callback may start the next request") {
  const HttpServer server([](const HttpRequest&, Reply& reply) { reply.whole(200, "text/plain", "x"); });
  Streams streams = open_streams();
  int left = 20;
  std::function<void()> next = [&] {
    if (left-- > 0)
      streams.start(Method::kGet, {.url = server.url()},
                    {.head = {}, .bytes = {}, .end = [&](const StreamEnd&) { next(); }});
  };
  next();
  next();
  drain(streams);
  CHECK(server.requests().size() == 20);
}

TEST_CASE("streams: cancelling one leaves the others alone") {
  const HttpServer server([](const HttpRequest& request, Reply& reply) {
    if (request.target == "/hang") return reply.hang();
    reply.whole(200, "text/plain", "x");
  });
  Streams streams = open_streams();
  std::map<std::string, std::string> ends;
  const auto callbacks = [&](const std::string& name) {
    return StreamCallbacks{.head = {}, .bytes = {}, .end = [&ends, name](const StreamEnd& end) {
                             ends[name] += end.error ? diag::rule_info(end.error->rule).slug : "ok";
                           }};
  };
  const auto hanging = streams.start(Method::kGet, {.url = server.url() + "/hang"}, callbacks("hang"));
  streams.start(Method::kGet, {.url = server.url()}, callbacks("fast"));
  while (ends["fast"].empty()) streams.poll(milliseconds(1000));
  streams.cancel(hanging);
  streams.cancel(hanging);
  streams.cancel(12345);
  drain(streams);
  CHECK(ends["fast"] == "ok");
  CHECK(ends["hang"] == "http/cancelled");
}

TEST_CASE("streams: a stop request from another thread wakes a poll and ends everything once") {
  std::stop_source stop;
  const HttpServer server([](const HttpRequest&, Reply& reply) {
    reply.head(200, "text/plain");
    reply.piece("x");
    reply.hang();
  });
  Streams streams = open_streams(stop.get_token());
  int cancelled = 0;
  std::jthread stopper;
  for (int i = 0; i < 3; ++i)
    streams.start(Method::kGet, {.url = server.url()},
                  {.head = {},
                   .bytes =
                       [&](std::string_view, int64_t) {
                         if (!stopper.joinable()) stopper = std::jthread([&stop] { stop.request_stop(); });
                       },
                   .end =
                       [&](const StreamEnd& end) {
                         cancelled += end.error && end.error->rule == diag::rule::http_cancelled ? 1 : 0;
                       }});
  drain(streams);
  CHECK(cancelled == 3);
}

TEST_CASE("streams: destruction with active requests calls nothing back") {
  const HttpServer server([](const HttpRequest&, Reply& reply) { reply.hang(); });
  int ended = 0;
  {
    Streams streams = open_streams();
    for (int i = 0; i < 3; ++i)
      streams.start(Method::kGet, {.url = server.url()},
                    {.head = {}, .bytes = {}, .end = [&](const StreamEnd&) { ++ended; }});
    streams.poll(milliseconds(5));
  }
  CHECK(ended == 0);
}

TEST_CASE("streams: a poll with nothing active returns at once, and a bounded poll returns in time") {
  Streams streams = open_streams();
  streams.poll(milliseconds(60'000));
  const HttpServer server([](const HttpRequest&, Reply& reply) { reply.hang(); });
  streams.start(Method::kGet, {.url = server.url()}, {});
  streams.poll(milliseconds(30));
  CHECK(streams.active() == 1);
}

}  // namespace sweep::http
