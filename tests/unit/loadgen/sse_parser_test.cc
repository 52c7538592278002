#include "orchestrator/loadgen/sse_parser.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "orchestrator/base/rng.h"
#include "tests/support/catch.h"

namespace sweep::loadgen {

namespace {

// Events as "name|data" texts.
std::vector<std::string> parse(const std::vector<std::string_view>& pieces, bool* unterminated = nullptr) {
  SseParser parser;
  std::vector<std::string> events;
  const auto take = [&](const SseEvent& event) {
    events.push_back(std::string(event.name) + "|" + std::string(event.data));
  };
  for (const std::string_view piece : pieces) parser.feed(piece, take);
  const bool open = parser.finish(take);
  if (unterminated != nullptr) *unterminated = open;
  return events;
}

std::vector<std::string> parse(std::string_view text) {
  return parse(std::vector<std::string_view>{text});
}

using Events = std::vector<std::string>;

}  // namespace

TEST_CASE("sse: fields, comments, keep-alives and unknown fields") {
  CHECK(parse("data: a\n\n") == Events{"|a"});
  CHECK(parse("data:a\n\n") == Events{"|a"});
  CHECK(parse("data:  a\n\n") == Events{"| a"});
  CHECK(parse("data: a\ndata: b\n\n") == Events{"|a\nb"});
  CHECK(parse("data\n\ndata: x\n\n") == Events{"|", "|x"});
  CHECK(parse(": keep-alive\n\n:\n\ndata: a\n: note\n\n") == Events{"|a"});
  CHECK(parse("event: error\ndata: a\n\ndata: b\n\n") == Events{"error|a", "|b"});
  CHECK(parse("event: ping\n\ndata: b\n\n") == Events{"|b"});
  CHECK(parse("id: 7\nretry: 10\nfoo: bar\ndatax: no\ndata: a:b\n\n") == Events{"|a:b"});
  CHECK(parse("\n\n\n").empty());
  CHECK(parse("").empty());
}

TEST_CASE("sse: LF, CRLF and CR end lines, also mixed") {
  CHECK(parse("data: a\r\n\r\ndata: b\r\rdata: c\n\n") == Events{"|a", "|b", "|c"});
  CHECK(parse("data: a\r\ndata: b\rdata: c\n\r\n") == Events{"|a\nb\nc"});
}

TEST_CASE("sse: a byte order mark is dropped at the start only") {
  CHECK(parse("\xEF\xBB\xBF"
              "data: a\n\n") == Events{"|a"});
  CHECK(parse("data: a\n\n\xEF\xBB\xBF"
              "data: b\n\n") == Events{"|a"});
}

TEST_CASE("sse: an event without its closing blank line is handed over at the end") {
  bool unterminated = false;
  CHECK(parse({"data: [DONE]"}, &unterminated) == Events{"|[DONE]"});
  CHECK(unterminated);
  CHECK(parse({"data: [DONE]\n"}, &unterminated) == Events{"|[DONE]"});
  CHECK(unterminated);
  CHECK(parse({"data: [DONE]\n\n"}, &unterminated) == Events{"|[DONE]"});
  CHECK(!unterminated);
}

TEST_CASE("sse: split at any byte, in two pieces or byte by byte, the events are the same") {
  const std::string text =
      "\xEF\xBB\xBF"
      ": hi\r\n\r\ndata: {\"t\":\"\xC3\xA9\xF0\x9F\x98\x80\"}\r\n\r\nevent: x\rdata: 1\rdata: 2\r\rdata: \n\n"
      "data: [DONE]\r\n\r\n";
  const Events whole = parse(text);
  REQUIRE(whole.size() == 4);
  for (size_t i = 0; i <= text.size(); ++i) {
    CAPTURE(i);
    CHECK(parse({std::string_view(text).substr(0, i), std::string_view(text).substr(i)}) == whole);
  }
  std::vector<std::string_view> bytes;
  for (size_t i = 0; i < text.size(); ++i) bytes.push_back(std::string_view(text).substr(i, 1));
  CHECK(parse(bytes) == whole);
}

TEST_CASE("sse: random splits of random event streams give the same events") {
  base::SplitMix64 random(7);
  constexpr std::string_view kPieces[] = {"data: ", "data", ":",        "\n",       "\r", "\r\n",
                                          "\n\n",   "x",    "event: e", "\xC3\xA9", " "};
  for (int round = 0; round < 500; ++round) {
    std::string text;
    for (int i = 0; i < 40; ++i) text += kPieces[random.below(std::size(kPieces))];
    std::vector<std::string_view> pieces;
    for (std::string_view rest = text; !rest.empty();) {
      const size_t size = std::min<size_t>(rest.size(), 1 + random.below(6));
      pieces.push_back(rest.substr(0, size));
      rest.remove_prefix(size);
    }
    CHECK(parse(pieces) == parse(text));
  }
}

TEST_CASE("sse: an event larger than the limit stops the parser, in one line or in many") {
  const auto take = [](const SseEvent&) {};
  SseParser one_line(100);
  CHECK(one_line.feed("data: ok\n\n", take));
  bool alive = true;
  for (int i = 0; i < 30 && alive; ++i) alive = one_line.feed("xxxxxxxxxx", take);
  CHECK(!alive);
  SseParser many_lines(100);
  alive = true;
  for (int i = 0; i < 30 && alive; ++i) alive = many_lines.feed("data: xxxx\n", take);
  CHECK(!alive);
  CHECK(!many_lines.finish(take));
}

}  // namespace sweep::loadgen
