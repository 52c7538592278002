#include "orchestrator/http/receive_time.h"

#include "tests/support/catch.h"

namespace sweep::http {

namespace {

constexpr int64_t kArrived = 1000;
constexpr int64_t kRead = 5000;

// "123\r\n" + body + "\r\n"
Piece chunk(size_t body_bytes) {
  return {.body_bytes = body_bytes, .coding_bytes = 7, .read_ns = kRead};
}

}  // namespace

TEST_CASE("arrival of pieces: what was looked at has the kernel's time, what came since the time of its reading") {
  ArrivalOfPieces arrival;
  arrival.begin(kArrived, 3 * 300);
  for (int i = 0; i < 3; ++i) CHECK(arrival.time_of(chunk(293)) == kArrived);
  CHECK(arrival.time_of(chunk(293)) == kRead);
  CHECK(arrival.time_of(chunk(1)) == kRead);
}

TEST_CASE("arrival of pieces: the coding of many chunks makes no room for one that came later") {
  ArrivalOfPieces arrival;
  constexpr int kChunks = 1000;
  arrival.begin(kArrived, kChunks * 300);
  for (int i = 0; i < kChunks; ++i) CHECK(arrival.time_of(chunk(293)) == kArrived);
  CHECK(arrival.time_of(chunk(293)) == kRead);
}

TEST_CASE("arrival of pieces: neither does the head of the reply") {
  ArrivalOfPieces arrival;
  arrival.begin(kArrived, 400 + 300);
  Piece first = chunk(293);
  first.head_bytes = 400;
  CHECK(arrival.time_of(first) == kArrived);
  CHECK(arrival.time_of(chunk(293)) == kRead);
}

TEST_CASE("arrival of pieces: a chunk that comes in parts is late by no more than its reading") {
  ArrivalOfPieces arrival;
  // The beginning of a chunk, then its rest and another chunk, in two looks.
  arrival.begin(kArrived, 5 + 100);
  CHECK(arrival.time_of(chunk(100)) == kArrived);
  arrival.begin(2 * kArrived, 193 + 2 + 300);
  CHECK(arrival.time_of(chunk(193)) == 2 * kArrived);
  CHECK(arrival.time_of({.body_bytes = 293, .coding_bytes = 7, .read_ns = kRead}) <= kRead);
}

TEST_CASE("arrival of pieces: no time is after the reading, and none is known after the call") {
  ArrivalOfPieces arrival;
  arrival.begin(kRead + 1, 1000);
  CHECK(arrival.time_of(chunk(10)) == kRead);
  arrival.end();
  CHECK(arrival.time_of(chunk(10)) == kRead);
}

}  // namespace sweep::http
