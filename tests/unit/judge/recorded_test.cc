#include "orchestrator/judge/recorded.h"

#include "tests/support/catch.h"

using namespace sweep;
using judge::Outcome;

TEST_CASE("recorded: the mean is held against what was asked, within a fixed distance or what chance explains") {
  const auto near = [](double length, int64_t draws, double within = 0.1) {
    return judge::acceptance_near({.length = length, .weighted = true, .windows = {}, .draws = draws},
                                  {.length = 5.7, .within = within});
  };
  CHECK(near(5.6, 0).outcome == Outcome::kPassed);
  CHECK(near(5.59, 0).outcome == Outcome::kFailed);
  CHECK(near(5.59, 40).outcome == Outcome::kPassed);  // 3.3 sqrt(0.21 / 40) = 0.239
  CHECK(near(5.45, 40).outcome == Outcome::kFailed);
  CHECK(near(5.69, 100000, 0).outcome == Outcome::kFailed);
  const judge::AskedAcceptance exactly{.length = 5.7, .within = 0.1, .exactly = true};
  CHECK(judge::acceptance_near({.length = 5.59, .draws = 40}, exactly).outcome == Outcome::kFailed);
  CHECK(contains(near(5.59, 0).text, "5.590, asked 5.7 +- 0.100"));
  CHECK(judge::acceptance_half_width({.draws = 200}, {.length = 5.7}) == Approx(0.10693).margin(1e-4));
}

TEST_CASE("recorded: one window far away fails although the mean is right") {
  const auto judged = [](std::vector<double> windows) {
    return judge::acceptance_near({.length = 5.7, .weighted = false, .windows = std::move(windows), .draws = 120},
                                  {.length = 5.7});
  };
  CHECK(judged({5.6, 5.7, 5.8}).outcome == Outcome::kPassed);
  CHECK(judged({5.4, 5.7, 6.0}).outcome == Outcome::kFailed);
  CHECK(contains(judged({5.4, 5.7, 6.0}).text, "2 of 3 windows"));
}

TEST_CASE("recorded: nothing realised fails, nothing asked passes") {
  CHECK(judge::acceptance_near({}, {}).outcome == Outcome::kFailed);
  CHECK(judge::acceptance_near({.length = 2.0}, {}).outcome == Outcome::kPassed);
}

TEST_CASE("recorded: a draft head that contributes nothing is an alarm, unless a length of 1 was asked for") {
  CHECK(judge::draft_alive({.drafted = 2010, .accepted = 0}, {}).outcome == Outcome::kFailed);
  CHECK(contains(judge::draft_alive({.drafted = 2010, .accepted = 0}, {}).text, "none of 2010"));
  CHECK(judge::draft_alive({.length = 1.0}, {}).outcome == Outcome::kFailed);
  CHECK(judge::draft_alive({.drafted = 2010, .accepted = 1}, {}).outcome == Outcome::kPassed);
  CHECK(judge::draft_alive({.length = 1.01}, {}).outcome == Outcome::kPassed);
  CHECK(judge::draft_alive({.drafted = 2010, .accepted = 0}, {.length = 1.0}).outcome == Outcome::kNotApplicable);
  CHECK(judge::draft_alive({.drafted = 0, .accepted = 0}, {}).outcome == Outcome::kNotApplicable);
  CHECK(judge::draft_alive({}, {}).outcome == Outcome::kNotApplicable);
}

TEST_CASE("recorded: more than one in a hundred prompt tokens from the cache is a warm point") {
  CHECK(judge::cache_cold(10, 1000).outcome == Outcome::kPassed);
  CHECK(judge::cache_cold(11, 1000).outcome == Outcome::kFailed);
  CHECK(contains(judge::cache_cold(33792, 81920).text, "41.25 %"));
  CHECK(judge::cache_cold(0, 0).outcome == Outcome::kPassed);
  CHECK(judge::cache_cold(std::nullopt, 1000).outcome == Outcome::kNotApplicable);
}

TEST_CASE("recorded: one line about compilation is enough") {
  CHECK(judge::nothing_compiled(0, {}).outcome == Outcome::kPassed);
  const auto failed = judge::nothing_compiled(2, "line 3: JIT");
  CHECK(failed.outcome == Outcome::kFailed);
  CHECK(contains(failed.text, "2 lines tell of compilation inside the measured interval: line 3: JIT"));
}
