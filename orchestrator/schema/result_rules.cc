// A result may not contradict itself: verdict, counts, acceptance and distributions are each stated twice in other
// words.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "orchestrator/diag/rules/result.h"
#include "orchestrator/schema/result_file.h"
#include "orchestrator/schema/rules.h"

namespace sweep::schema {

namespace {

using diag::RuleId;
namespace rule = diag::rule;

constexpr double kRounding = 1e-6;  // figures pass through decimal text

class ResultCheck {
 public:
  ResultCheck(const ResultFile& result, diag::Diagnostics& out) : result_(result), out_(out) {}

  void run() {
    check_verdict();
    check_research();
    if (result_.workload) check_counts(*result_.workload);
    if (result_.acceptance) check_acceptance(*result_.acceptance);
    if (result_.latency_ms) check_latency(*result_.latency_ms);
    check_weights();
    if (result_.provenance) check_time(*result_.provenance);
  }

 private:
  void report(RuleId rule, yaml::Range where, std::string path, std::string message, std::string help = {}) {
    out_.add(finding(rule, *result_.document, where, std::move(path), std::move(message), std::move(help)));
  }

  void check_verdict() {
    std::vector<std::string_view> failed;
    for (const ResultCondition& condition : result_.conditions)
      if (*condition.outcome == ConditionOutcome::kFailed) failed.push_back(*condition.text);
    if (*result_.valid != failed.empty())
      report(rule::result_verdict, result_.valid.where, "valid",
             fmt::format("\"valid\" is {}, but {} of {} conditions failed", *result_.valid, failed.size(),
                         result_.conditions.size()));
    if (result_.conditions.empty())
      report(rule::result_verdict, result_.valid.where, "conditions", "no condition was decided");
    const bool same = std::equal(failed.begin(), failed.end(), result_.reasons.begin(), result_.reasons.end(),
                                 [](std::string_view text, const Text& reason) { return text == *reason; });
    if (!same)
      report(rule::result_verdict, result_.reasons.empty() ? result_.valid.where : result_.reasons.front().where,
             "reasons",
             fmt::format("\"reasons\" has {} texts, which are not those of the {} failed conditions",
                         result_.reasons.size(), failed.size()));
  }

  void check_research() {
    const bool research = *result_.research_only;
    if (result_.acceptance && *result_.acceptance->source == AcceptanceSource::kExplicit && !research)
      report(rule::result_research, result_.research_only.where, "research_only",
             "an explicit acceptance length in a result that is not research-only");
    if (research && result_.authorization->empty())
      report(rule::result_research, result_.authorization.where, "authorization",
             "a research-only result states no authorization");
    if (research && result_.deviations.empty())
      report(rule::result_research, result_.research_only.where, "deviations",
             "a research-only result lists no deviations");
  }

  void check_counts(const ResultWorkload& w) {
    const auto at_most = [&](const Integer& value, std::string_view name, const Integer& limit,
                             std::string_view limit_name) {
      if (*value > *limit)
        report(rule::result_counts, value.where, fmt::format("workload.{}", name),
               fmt::format("\"{}\" is {}, more than the {} of \"{}\"", name, *value, *limit, limit_name));
    };
    at_most(w.measured_requests, "measured_requests", w.requests, "requests");
    at_most(w.failed_requests, "failed_requests", w.measured_requests, "measured_requests");
    if (!*result_.valid) return;
    if (*w.failed_requests != 0)
      report(rule::result_counts, w.failed_requests.where, "workload.failed_requests",
             fmt::format("a valid result has {} failed requests", *w.failed_requests));
    const auto exactly = [&](const Integer& tokens, std::string_view name, const Integer& each) {
      if (static_cast<double>(*tokens) != static_cast<double>(*w.measured_requests) * static_cast<double>(*each))
        report(rule::result_counts, tokens.where, fmt::format("workload.{}", name),
               fmt::format("\"{}\" is {}, expected {} requests of {}", name, *tokens, *w.measured_requests, *each));
    };
    exactly(w.prompt_tokens, "prompt_tokens", w.isl);
    exactly(w.output_tokens, "output_tokens", w.osl);
  }

  // Length stated for steps and accepted drafts: the ratio, within what the draft tokens allow.
  void check_length(const Number& stated, const Integer& steps, const Integer& accepted, const std::string& path) {
    if (!stated || !steps || !accepted || *steps == 0) return;
    const double expected = 1 + static_cast<double>(*accepted) / static_cast<double>(*steps);
    if (std::fabs(*stated - expected) > kRounding)
      report(rule::result_acceptance, stated.where, path,
             fmt::format("acceptance length {} does not follow from {} steps and {} accepted drafts, expected {:.6g}",
                         *stated, *steps, *accepted, expected));
    const Integer& drafts = result_.acceptance->draft_tokens;
    if (*stated > static_cast<double>(*drafts) + 1 + kRounding)
      report(rule::result_acceptance, stated.where, path,
             fmt::format("acceptance length {} is out of range, expected 1 to {} with {} draft tokens", *stated,
                         *drafts + 1, *drafts));
  }

  void check_acceptance(const ResultAcceptance& a) {
    check_length(a.realised, a.steps, a.accepted, "acceptance.realised");
    for (size_t i = 0; i < a.windows.size(); ++i)
      check_length(a.windows[i].acceptance_length, a.windows[i].steps, a.windows[i].accepted,
                   fmt::format("acceptance.windows[{}].acceptance_length", i));
    if (a.requested && *a.requested > static_cast<double>(*a.draft_tokens) + 1)
      report(rule::result_acceptance, a.requested.where, "acceptance.requested",
             fmt::format("acceptance length {} is out of range, expected 1 to {} with {} draft tokens", *a.requested,
                         *a.draft_tokens + 1, *a.draft_tokens));
    if (*result_.valid && a.requested && a.realised && a.tolerance &&
        std::fabs(*a.requested - *a.realised) > *a.tolerance + kRounding)
      report(rule::result_acceptance, a.realised.where, "acceptance.realised",
             fmt::format("a valid result realised {} where {} was requested, which is more than {} apart", *a.realised,
                         *a.requested, *a.tolerance));
    if (*a.source == AcceptanceSource::kExplicit && !a.requested)
      report(rule::result_acceptance, a.source.where, "acceptance.requested",
             "\"source\" is explicit and no length was requested");
  }

  void check_distribution(const ResultDistribution& d, std::string_view name, bool one_a_request) {
    const std::string path = fmt::format("latency_ms.{}", name);
    const std::array<std::pair<std::string_view, const Number*>, 5> rising{
        {{"min", &d.min}, {"p50", &d.p50}, {"p90", &d.p90}, {"p99", &d.p99}, {"max", &d.max}}};
    if (*d.count == 0) {
      for (const auto& [figure, value] : rising)
        if (*value)
          report(rule::result_distribution, value->where, fmt::format("{}.{}", path, figure),
                 fmt::format("\"{}\" is stated for no samples, expected null", figure));
      return;
    }
    const auto* last = &rising.front();
    for (const auto& item : rising) {
      if (!*item.second) continue;
      if (*last->second && **item.second < **last->second)
        report(rule::result_distribution, item.second->where, fmt::format("{}.{}", path, item.first),
               fmt::format("\"{}\" {} is less than \"{}\" {}", item.first, **item.second, last->first, **last->second));
      last = &item;
    }
    const double slack = d.max ? kRounding * (1 + *d.max) : kRounding;
    if (d.mean && d.min && d.max && (*d.mean < *d.min - slack || *d.mean > *d.max + slack))
      report(rule::result_distribution, d.mean.where, path + ".mean",
             fmt::format("\"mean\" {} is outside of {} to {}", *d.mean, *d.min, *d.max));
    if (one_a_request && result_.workload && *d.count > *result_.workload->measured_requests)
      report(rule::result_counts, d.count.where, path + ".count",
             fmt::format("{} samples of {} measured requests, expected at most one each", *d.count,
                         *result_.workload->measured_requests));
  }

  void check_latency(const ResultLatency& latency) {
    if (latency.ttft) check_distribution(*latency.ttft, "ttft", true);
    if (latency.tpot) check_distribution(*latency.tpot, "tpot", true);
    if (latency.itl) check_distribution(*latency.itl, "itl", false);
    if (latency.inter_chunk) check_distribution(*latency.inter_chunk, "inter_chunk", false);
    if (latency.e2el) check_distribution(*latency.e2el, "e2el", true);
  }

  void check_weights() {
    if (!*result_.valid) return;
    if (!result_.weights || !result_.weights->verified || !*result_.weights->verified)
      report(rule::result_weights, result_.weights ? result_.weights->where : result_.valid.where, "weights.verified",
             "the result is valid and its weights were not verified");
    else if (result_.point && result_.weights->revision && *result_.weights->revision != *result_.point->revision)
      report(rule::result_weights, result_.weights->revision.where, "weights.revision",
             fmt::format("weights of revision \"{}\" in a valid result of \"{}\"", *result_.weights->revision,
                         *result_.point->revision));
    if (result_.weights && result_.weights->agreement && result_.weights->agreement->agreed &&
        !*result_.weights->agreement->agreed)
      report(rule::result_weights, result_.weights->agreement->agreed.where, "weights.agreement.agreed",
             "the result is valid and its hosts did not agree on the weights");
  }

  void check_time(const ResultProvenance& p) {
    if (p.measured_from && p.measured_to && *p.measured_to < *p.measured_from)
      report(rule::result_time, p.measured_to.where, "provenance.measured_to",
             fmt::format("the window ends at {}, before it begins at {}", *p.measured_to, *p.measured_from));
  }

  const ResultFile& result_;
  diag::Diagnostics& out_;
};

}  // namespace

void check_result(const ResultFile& result, diag::Diagnostics& out) {
  ResultCheck(result, out).run();
}

}  // namespace sweep::schema
