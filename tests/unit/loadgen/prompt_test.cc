#include "orchestrator/loadgen/prompt.h"

#include <algorithm>
#include <set>

#include "tests/support/catch.h"

namespace sweep::loadgen {

TEST_CASE("prompt: has exactly the length, only allowed ids, and the same seed gives the same ids") {
  const TokenRange range{.begin = 10, .end = 20, .excluded = {13, 10, 19, 13, 500}};
  CHECK(range.size() == 7);
  const auto ids = make_prompt(1, 8192, range);
  CHECK(ids.size() == 8192);
  const std::set<int64_t> seen(ids.begin(), ids.end());
  CHECK(seen == std::set<int64_t>{11, 12, 14, 15, 16, 17, 18});
  CHECK(make_prompt(1, 8192, range) == ids);
  CHECK(make_prompt(2, 8192, range) != ids);
}

TEST_CASE("prompt: ids are pinned, so that recorded seeds stay reproducible") {
  CHECK(make_prompt(42, 4, {.begin = 0, .end = 1000}) == std::vector<int64_t>{741, 159, 278, 344});
}

TEST_CASE("prompt: two requests share no prefix beyond chance") {
  const TokenRange range{.begin = 0, .end = 100'000};
  std::set<std::vector<int64_t>> beginnings;
  for (int64_t sequence = 0; sequence < 1000; ++sequence)
    for (const auto phase : {sample::Phase::kWarmUp, sample::Phase::kMeasured})
      beginnings.insert(make_prompt(prompt_seed(7, phase, sequence), 4, range));
  CHECK(beginnings.size() == 2000);
}

TEST_CASE("prompt: the seed depends on load seed, phase and sequence only, and fits a JSON number") {
  CHECK(prompt_seed(1, sample::Phase::kMeasured, 0) == prompt_seed(1, sample::Phase::kMeasured, 0));
  CHECK(prompt_seed(1, sample::Phase::kMeasured, 0) != prompt_seed(2, sample::Phase::kMeasured, 0));
  CHECK(prompt_seed(1, sample::Phase::kMeasured, 0) != prompt_seed(1, sample::Phase::kWarmUp, 0));
  CHECK(prompt_seed(1, sample::Phase::kMeasured, 0) != prompt_seed(1, sample::Phase::kMeasured, 1));
  for (int64_t i = 0; i < 1000; ++i) CHECK(prompt_seed(3, sample::Phase::kMeasured, i) < uint64_t{1} << 53);
}

TEST_CASE("prompt: ids of a range are drawn evenly") {
  const auto ids = make_prompt(5, 100'000, {.begin = 0, .end = 10});
  for (int64_t id = 0; id < 10; ++id) {
    const auto count = std::count(ids.begin(), ids.end(), id);
    CHECK((count > 9500 && count < 10'500));  // five standard deviations of 95 either way
  }
}

TEST_CASE("token range: empty and inverted ranges have no ids") {
  CHECK(TokenRange{.begin = 5, .end = 5}.size() == 0);
  CHECK(TokenRange{.begin = 6, .end = 5}.size() == 0);
  CHECK(TokenRange{.begin = 5, .end = 7, .excluded = {5, 6}}.size() == 0);
}

}  // namespace sweep::loadgen
