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
          {"isa", build.isa != nullptr ? Json(build.isa) : Json()},
          {"compiler", build.compiler}};
}

Json device_json(const device::DeviceInfo& info) {
  return {{"ordinal", info.ordinal},
          {"name", info.name},
          {"pci_bus_id", info.pci_bus_id},
          {"compute_capability", info.capability()},
          {"multiprocessors", info.multiprocessors},
          {"memory_bytes", info.memory_bytes},
          {"driver_cuda_version", info.driver_cuda_version()}};
}

Json summary_json(const ErrorSummary& errors) {
  return {{"max_abs_error", errors.max},
          {"max_of_tolerance", errors.of_tolerance},
          {"mean_abs_error", errors.mean()},
          {"values", errors.count}};
}

Json output_json(const ErrorSummary& errors) {
  Json json = summary_json(errors);
  json["relative_frobenius_error"] = errors.relative_frobenius();
  return json;
}

// Adds the members of a cell or group that speak of errors.
void add_errors(const Errors& errors, Json& json) {
  json["output"] = output_json(errors.output);
  json["lse"] = summary_json(errors.lse);
  json["lse"]["floor_mean_abs_error"] = errors.lse_floor.mean();
  json["lse"]["mean_over_floor"] = errors.lse_ratio();
  json["baseline"] = {{"output", output_json(errors.baseline_output)}, {"lse", summary_json(errors.baseline_lse)}};
}

Json cell_json(const Cell& cell) {
  Json failures = Json::array();
  for (const Failure& failure : cell.failures) {
    failures.push_back({{"check", failure.check}, {"message", failure.message}});
  }
  Json json = {{"name", cell.name}, {"shape", cell.shape}, {"group", cell.group}, {"ordinary", cell.ordinary}};
  add_errors(cell.errors, json);
  if (cell.published.output_mean > 0) {
    json["upstream"] = {{"output_mean_abs_error", cell.published.output_mean},
                        {"output_relative_frobenius_error", cell.published.output_relative_frobenius},
                        {"lse_mean_abs_error", cell.published.lse_mean}};
  }
  json["repeats"] = cell.repeats;
  json["graph_replays"] = cell.replays;
  json["graph_nodes"] = cell.launches;
  json["verdict"] = cell.passed() ? "pass" : "fail";
  json["failures"] = std::move(failures);
  return json;
}

Json group_json(const Group& group) {
  Json json = {{"name", group.name}, {"cells", group.cells}, {"failed", group.failed}, {"repeats", group.repeats}};
  add_errors(group.all, json);
  json["ordinary"] = Json::object();
  add_errors(group.ordinary, json["ordinary"]);
  return json;
}

Json tolerance_json(const char* arch, Stored stored) {
  const Tolerance tolerance = tolerance_of(arch, stored);
  return {{"unit", tolerance.unit},
          {"output_unit", tolerance.output_unit},
          {"score_factor", tolerance.score_factor},
          {"peak_factor", tolerance.peak_factor},
          {"sum_units", tolerance.sum_units},
          {"weight_unit", tolerance.weight_unit},
          {"small_factor", tolerance.small_factor}};
}

}  // namespace

bool Report::passed() const {
  return stopped.empty() && !cells.empty() &&
         std::all_of(cells.begin(), cells.end(), [](const Cell& cell) { return cell.passed(); });
}

std::string to_json(const Report& report) {
  Json cells = Json::array();
  Errors errors;
  int64_t failed = 0;
  for (const Cell& cell : report.cells) {
    cells.push_back(cell_json(cell));
    errors.add(cell.errors);
    if (!cell.passed()) ++failed;
  }
  Json groups = Json::array();
  for (const Group& group : groups_of(report.cells)) groups.push_back(group_json(group));
  const char* arch = report.library_build.arch;
  Json totals = {{"cells", report.cells.size()},
                 {"passed", static_cast<int64_t>(report.cells.size()) - failed},
                 {"failed", failed}};
  add_errors(errors, totals);
  const Json json = {{"schema_version", kReportSchemaVersion},
                     {"library", report.library},
                     {"baseline", report.baseline},
                     {"build", build_json(report.library_build)},
                     {"baseline_build", build_json(report.baseline_build)},
                     {"device", report.device ? device_json(*report.device) : Json()},
                     {"seed", report.seed},
                     {"cases", report.cases},
                     {"filter", report.filter},
                     {"threads", report.threads},
                     {"tolerance",
                      {{"sparse", tolerance_json(arch, Stored::kExactScales)},
                       {"sparse_fp32_scales", tolerance_json(arch, Stored::kFp32Scales)},
                       {"dense", tolerance_json(arch, Stored::kBf16)}}},
                     {"cells", std::move(cells)},
                     {"groups", std::move(groups)},
                     {"totals", std::move(totals)},
                     {"stopped", report.stopped},
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
