#include "orchestrator/cli/command.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace sweep::cli {

namespace {

// Families (or single rules, which win) whose failures are not problems of the inputs.
constexpr auto kCodes = std::to_array<std::pair<std::string_view, ExitCode>>({
    {"cli/", ExitCode::kUsage},
    {"exec/", ExitCode::kCouldNotRun},
    {"git/", ExitCode::kCouldNotRun},
    {"git/bad-ref", ExitCode::kUsage},
    {"http/", ExitCode::kCouldNotRun},
    {"hub/bad-model", ExitCode::kUsage},
    {"hub/not-a-commit", ExitCode::kUsage},
    {"hub/bad-setting", ExitCode::kUsage},
    {"hub/offline", ExitCode::kCouldNotRun},
    {"hub/rate-limited", ExitCode::kCouldNotRun},
    {"hub/unavailable", ExitCode::kCouldNotRun},
    {"hub/bad-reply", ExitCode::kCouldNotRun},
    {"engine/", ExitCode::kCouldNotRun},
    {"engine/malformed-metrics", ExitCode::kProblems},
    {"engine/malformed-log", ExitCode::kProblems},
    {"load/", ExitCode::kCouldNotRun},
    {"load/malformed-capture", ExitCode::kProblems},
    {"load/repeated-request", ExitCode::kProblems},
    {"run/", ExitCode::kCouldNotRun},
    {"kernels/", ExitCode::kCouldNotRun},
    {"kernels/gate-failed", ExitCode::kGateFailed},
    {"kernels/unknown-arch", ExitCode::kUsage},
    {"kernels/bench-usage", ExitCode::kUsage},
    {"judge/", ExitCode::kInvalid},
    {"power/unavailable", ExitCode::kCouldNotRun},
    {"file/unwritable", ExitCode::kCouldNotRun},
    {"weights/unreadable", ExitCode::kCouldNotRun},
    {"cli/no-checkout", ExitCode::kCouldNotRun},
    {"run/exists", ExitCode::kUsage},
    {"run/nothing-to-resume", ExitCode::kUsage},
    {"run/server-options", ExitCode::kUsage},
    {"run/closed-loop-only", ExitCode::kProblems},
    {"run/no-words", ExitCode::kProblems},
    {"http/bad-key", ExitCode::kUsage},
    {"engine/acceptance-range", ExitCode::kProblems},
    {"engine/acceptance-unsupported", ExitCode::kProblems},
    {"engine/recipe-unusable", ExitCode::kProblems},
    {"run/not-ready", ExitCode::kProblems},
    {"run/no-pin", ExitCode::kProblems},
    {"run/no-entry", ExitCode::kUsage},
    {"run/weights-not-verified", ExitCode::kProblems},
    {"run/weights-disagree", ExitCode::kProblems},
});

}  // namespace

ExitCode exit_code_of(const diag::Diagnostic& diagnostic) {
  const std::string_view slug = diag::rule_info(diagnostic.rule).slug;
  ExitCode code = ExitCode::kProblems;
  size_t matched = 0;
  for (const auto& [prefix, value] : kCodes) {
    if (slug.starts_with(prefix) && prefix.size() > matched) {
      code = value;
      matched = prefix.size();
    }
  }
  return code;
}

ExitCode fail(const Context& context, const diag::Diagnostic& diagnostic) {
  context.console.report(diagnostic);
  return exit_code_of(diagnostic);
}

}  // namespace sweep::cli
