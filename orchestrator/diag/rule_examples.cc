#include "orchestrator/diag/rule_examples.h"

#include <algorithm>
#include <array>

namespace sweep::diag {

namespace {

using enum ExamplePlace;

constexpr auto kExamples = std::to_array<RuleExample>({
    {"yaml/duplicate-key", kEntry, "status: ready\nstatus: in-progress", "status: in-progress"},
    {"schema/unknown-field", kPoint, "{ tp: 8, conc_list: [1, 2] }", "{ tp: 8, conc-list: [1, 2] }"},
    {"schema/missing-field", kPoint, "{ conc-list: [1, 2] }", "{ tp: 8, conc-list: [1, 2] }"},
    {"schema/wrong-type", kPoint, "{ tp: \"8\", conc-list: [1e1] }", "{ tp: 8, conc-list: [10] }"},
    {"schema/out-of-range", kPoint, "{ tp: 0, conc-list: [1] }", "{ tp: 1, conc-list: [1] }"},
    {"schema/unknown-value", kEntry, "status: redy", "status: ready"},
    {"schema/malformed-text", kEntry, "revision: main", "revision: dba1be0a40aa45a94ab051997016db3960a90277"},
    {"matrix/concurrency", kPoint, "{ tp: 8, conc-list: [1], conc-start: 1, conc-end: 8 }",
     "{ tp: 8, conc-start: 1, conc-end: 8 }"},
    {"matrix/concurrency-repeated", kPoint, "{ tp: 8, conc-list: [1, 2, 2] }", "{ tp: 8, conc-list: [1, 2] }"},
    {"matrix/parallelism", kPoint, "{ tp: 8, dcp-size: 3, conc-list: [1] }", "{ tp: 8, dcp-size: 4, conc-list: [1] }"},
    {"matrix/expert-ranks", kPoint, "{ tp: 8, ep: 16, conc-list: [1] }", "{ tp: 8, ep: 8, conc-list: [1] }"},
    {"matrix/gpus-do-not-fit", kPoint, "{ tp: 8, pp: 2, conc-list: [1] }", "{ tp: 4, pp: 2, conc-list: [1] }"},
    {"matrix/draft-tokens", kPoint, "{ tp: 8, spec-decoding: dspark, conc-list: [1] }",
     "{ tp: 8, spec-decoding: dspark, num-draft-tokens: 7, conc-list: [1] }"},
    {"matrix/topology", kEntry, "disagg: true", "disagg: false"},
    {"acceptance/out-of-range", kResearch, "acceptance: { source: explicit, length: 9 }",
     "acceptance: { source: explicit, length: 5.7 }"},
    {"acceptance/length-missing", kResearch, "acceptance: { source: explicit }",
     "acceptance: { source: explicit, length: 5.7 }"},
    {"acceptance/length-not-explicit", kResearch, "acceptance: { source: golden, length: 5.7 }",
     "acceptance: { source: golden }"},
    {"acceptance/explicit-needs-research-only", kEntry, "acceptance: { source: explicit, length: 5.7 }",
     "acceptance: { source: explicit, length: 5.7 }\n"
     "research-only: true\n"
     "authorization: \"Maintainers: comparison of two kernels, not for publication\"\n"
     "deviations: [\"explicit acceptance length 5.7 instead of the golden curve\"]"},
    {"acceptance/without-speculation", kEntry, "acceptance: { source: measured }", "status: ready"},
    {"research/not-authorised", kEntry, "research-only: true\ndeviations: [\"FP8 activations\"]",
     "research-only: true\nauthorization: \"Maintainers: for comparison only\"\ndeviations: [\"FP8 activations\"]"},
    {"research/deviations-missing", kEntry, "research-only: true\nauthorization: \"Maintainers: for comparison only\"",
     "research-only: true\nauthorization: \"Maintainers: for comparison only\"\ndeviations: [\"FP8 activations\"]"},
    {"research/not-declared", kEntry, "deviations: [\"FP8 activations\"]",
     "research-only: true\nauthorization: \"Maintainers: for comparison only\"\ndeviations: [\"FP8 activations\"]"},
    {"changelog/layout", kChangelog,
     "- description:\n    - \"Raise the concurrency\"\n  config-keys:\n    - tiny\n  pr-link: XXX\n",
     "- config-keys:\n    - tiny\n  description:\n    - \"Raise the concurrency\"\n  pr-link: XXX\n"},
    {"changelog/append-only-evals", kChangelog,
     "- config-keys:\n    - tiny\n  description:\n    - \"Add a point\"\n  append-only: true\n  evals-only: true\n"
     "  pr-link: XXX\n",
     "- config-keys:\n    - tiny\n  description:\n    - \"Add a point\"\n  append-only: true\n  pr-link: XXX\n"},
});

}  // namespace

std::string_view place_name(ExamplePlace place) {
  switch (place) {
    case kPoint:
      return "in a search space";
    case kEntry:
      return "in a matrix entry";
    case kResearch:
      return "in a research-only entry with num-draft-tokens: 7";
    case kChangelog:
      return "in the changelog";
  }
  return {};
}

size_t example_count() {
  return kExamples.size();
}

const RuleExample* find_example(std::string_view slug) {
  const auto found =
      std::find_if(kExamples.begin(), kExamples.end(), [&](const RuleExample& e) { return e.slug == slug; });
  return found == kExamples.end() ? nullptr : &*found;
}

}  // namespace sweep::diag
