#include "orchestrator/judge/recorded.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "orchestrator/diag/rules/judge.h"

namespace sweep::judge {

namespace rule = diag::rule;

double recorded_within() {
  return tolerance_of(AcceptanceFrom::kLogWindows).least;
}

double acceptance_half_width(const RealisedAcceptance& realised, const AskedAcceptance& asked) {
  if (!asked.length || asked.exactly || realised.draws <= 0) return asked.within;
  return std::max(asked.within,
                  chance(*asked.length, realised.draws, tolerance_of(AcceptanceFrom::kLogWindows).deviations));
}

Condition acceptance_near(const RealisedAcceptance& realised, const AskedAcceptance& asked) {
  Condition condition{.rule = rule::judge_acceptance};
  if (!realised.length) {
    condition.text = "no verification step was reported, so the realised acceptance length is unknown";
    return condition;
  }
  condition.text =
      realised.windows.empty()
          ? fmt::format("realised acceptance length {:.3f}", *realised.length)
          : fmt::format("realised acceptance length {:.3f} over {} windows ({})", *realised.length,
                        realised.windows.size(),
                        realised.weighted ? "over all their steps" : "the mean of their means, not weighted by tokens");
  condition.outcome = Outcome::kPassed;
  if (!asked.length) {
    condition.text += "; there is no value to meet";
    return condition;
  }
  const double half_width = acceptance_half_width(realised, asked);
  constexpr double kRounding = 1e-9;
  if (std::abs(*realised.length - *asked.length) > half_width + kRounding) condition.outcome = Outcome::kFailed;
  condition.text += fmt::format(", asked {} +- {:.3f}", *asked.length, half_width);
  if (realised.windows.empty() || realised.draws <= 0) return condition;
  const auto window_draws = std::max<int64_t>(1, realised.draws / static_cast<int64_t>(realised.windows.size()));
  const Tolerance& one = tolerance_of_window(false);
  const double window_width =
      std::max(asked.within, chance(*asked.length, window_draws, one.deviations) + one.rounding);
  const auto outside = std::count_if(realised.windows.begin(), realised.windows.end(),
                                     [&](double length) { return std::abs(length - *asked.length) > window_width; });
  if (outside == 0) return condition;
  condition.outcome = Outcome::kFailed;
  condition.text +=
      fmt::format("; {} of {} windows are further from it than {:.3f}", outside, realised.windows.size(), window_width);
  return condition;
}

Condition draft_alive(const Drafting& drafting, const AskedAcceptance& asked) {
  Condition condition{.rule = rule::judge_dead_draft, .outcome = Outcome::kNotApplicable};
  const bool length_is_one = drafting.length && *drafting.length == 1.0;
  if (asked.length && *asked.length == 1.0) {
    condition.text = "an acceptance length of 1 was asked for";
  } else if (!drafting.drafted.value_or(drafting.length ? 1 : 0)) {
    condition.text = "no drafted token was reported";
  } else if (drafting.accepted.value_or(length_is_one ? 0 : 1) == 0) {
    condition.outcome = Outcome::kFailed;
    condition.text = drafting.drafted ? fmt::format(
                                            "the draft head is dead: acceptance length 1.00, none of {} drafted "
                                            "tokens was accepted",
                                            *drafting.drafted)
                                      : "the draft head is dead: acceptance length 1.00 in every window";
  } else {
    condition.outcome = Outcome::kPassed;
    condition.text = "drafted tokens were accepted";
  }
  return condition;
}

Condition cache_cold(const std::optional<int64_t>& cached, const std::optional<int64_t>& looked_up) {
  Condition condition{.rule = rule::judge_prefix_cache, .outcome = Outcome::kNotApplicable};
  if (!cached || !looked_up) {
    condition.text = "hits of the prefix cache are not in it";
    return condition;
  }
  const double rate = *looked_up > 0 ? static_cast<double>(*cached) / static_cast<double>(*looked_up) : 0.0;
  condition.outcome = *cached == 0 || rate <= kCacheHitsRecorded ? Outcome::kPassed : Outcome::kFailed;
  condition.text = fmt::format("{} of {} prompt tokens came from the prefix cache ({:.2f} %, limit {:.0f} %)", *cached,
                               *looked_up, 100 * rate, 100 * kCacheHitsRecorded);
  return condition;
}

Condition nothing_compiled(size_t lines, const std::string& first) {
  Condition condition{.rule = rule::judge_jit, .outcome = Outcome::kPassed};
  if (lines == 0) {
    condition.text = "no line tells of compilation inside the measured interval";
    return condition;
  }
  condition.outcome = Outcome::kFailed;
  condition.text = fmt::format("{} {} of compilation inside the measured interval: {}", lines,
                               lines == 1 ? "line tells" : "lines tell", first);
  return condition;
}

}  // namespace sweep::judge
