#include "kernels/gate/report.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

namespace flashmla::gate {
namespace {

using Json = nlohmann::ordered_json;

Json build_json(const flashmla_build& build) {
  return {{"abi_version", build.abi_version},
          {"arch", build.arch},
          {"variant", build.variant},
          {"isa", build.isa},
          {"compiler", build.compiler}};
}

Json errors_json(const ErrorSummary& errors) {
  return {{"max_abs_error", errors.max}, {"mean_abs_error", errors.mean()}, {"values", errors.count}};
}

Json cell_json(const Cell& cell) {
  Json failures = Json::array();
  for (const Failure& failure : cell.failures) {
    failures.push_back({{"check", failure.check}, {"message", failure.message}});
  }
  return {{"name", cell.name},
          {"shape", cell.shape},
          {"output", errors_json(cell.output)},
          {"lse", errors_json(cell.lse)},
          {"baseline", {{"output", errors_json(cell.baseline_output)}, {"lse", errors_json(cell.baseline_lse)}}},
          {"verdict", cell.passed() ? "pass" : "fail"},
          {"failures", std::move(failures)}};
}

void merge(ErrorSummary& total, const ErrorSummary& errors) {
  total.max = std::max(total.max, errors.max);
  total.sum += errors.sum;
  total.count += errors.count;
}

}  // namespace

bool Report::passed() const {
  return !cells.empty() && std::all_of(cells.begin(), cells.end(), [](const Cell& cell) { return cell.passed(); });
}

std::string to_json(const Report& report) {
  Json cells = Json::array();
  ErrorSummary output, lse;
  int64_t failed = 0;
  for (const Cell& cell : report.cells) {
    cells.push_back(cell_json(cell));
    merge(output, cell.output);
    merge(lse, cell.lse);
    if (!cell.passed()) ++failed;
  }
  const Tolerance& tolerance = report.tolerance;
  const Json json = {{"schema_version", kReportSchemaVersion},
                     {"library", report.library},
                     {"baseline", report.baseline},
                     {"build", build_json(report.library_build)},
                     {"baseline_build", build_json(report.baseline_build)},
                     {"seed", report.seed},
                     {"cases", report.cases},
                     {"threads", report.threads},
                     {"tolerance",
                      {{"unit", tolerance.unit},
                       {"output_unit", tolerance.output_unit},
                       {"score_factor", tolerance.score_factor},
                       {"sum_units", tolerance.sum_units}}},
                     {"cells", std::move(cells)},
                     {"totals",
                      {{"cells", report.cells.size()},
                       {"passed", static_cast<int64_t>(report.cells.size()) - failed},
                       {"failed", failed},
                       {"output", errors_json(output)},
                       {"lse", errors_json(lse)}}},
                     {"verdict", report.passed() ? "pass" : "fail"}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

bool write_report(const Report& report, const std::string& path, std::string& error) {
  const std::string text = to_json(report);
  const std::string temporary = path + ".tmp." + std::to_string(getpid());
  std::FILE* file = std::fopen(temporary.c_str(), "wb");
  if (file == nullptr) {
    error = std::strerror(errno);
    return false;
  }
  bool good = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  good = std::fflush(file) == 0 && fsync(fileno(file)) == 0 && good;
  good = std::fclose(file) == 0 && good;
  if (good && std::rename(temporary.c_str(), path.c_str()) == 0) return true;
  error = std::strerror(errno);
  std::remove(temporary.c_str());
  return false;
}

}  // namespace flashmla::gate
