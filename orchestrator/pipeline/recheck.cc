#include "orchestrator/pipeline/recheck.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <system_error>
#include <utility>

#include "orchestrator/base/file.h"
#include "orchestrator/diag/rules/file.h"
#include "orchestrator/diag/rules/result.h"
#include "orchestrator/engine/readback.h"
#include "orchestrator/pipeline/evidence.h"
#include "orchestrator/pipeline/run_folder.h"
#include "orchestrator/report/fields.h"
#include "orchestrator/report/result.h"
#include "orchestrator/sample/metrics.h"
#include "orchestrator/sample/sample_file.h"
#include "orchestrator/schema/checkout.h"

namespace sweep::pipeline {

namespace {

namespace fs = std::filesystem;
namespace rule = diag::rule;
using nlohmann::json;

constexpr double kRounding = 1e-9;  // figures pass through decimal text that is read back exactly
constexpr uint64_t kMostBytes = uint64_t{64} << 20;
constexpr size_t kMostDifferences = 200;

bool is_same(const json& stated, const json& recomputed) {
  if (!stated.is_number() || !recomputed.is_number()) return stated == recomputed;
  const auto a = stated.get<double>();
  const auto b = recomputed.get<double>();
  return std::fabs(a - b) <= kRounding * std::max(std::fabs(a), std::fabs(b));
}

std::string shown(const json& value) {
  constexpr size_t kMost = 200;
  const std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  return text.size() <= kMost ? text : text.substr(0, kMost) + "...";
}

class Recheck {
 public:
  explicit Recheck(const fs::path& file) : file_(file), folder_(file.parent_path()) {}

  report::Inspection run() {
    if (!read()) return std::move(out_);
    out_.values = {{"differences", json::array()}};
    try {
      check_gpus();
      check_requests();
    } catch (const json::exception& error) {  // documents beside the result are of any shape
      not_recomputed(fmt::format("a document of the bundle has an unexpected shape: {}", error.what()));
    }
    report_differences();
    out_.values["valid"] = result_["valid"];
    out_.values["reasons"] = result_["reasons"];
    conclude();
    return std::move(out_);
  }

 private:
  bool read() {
    const auto text = base::read_file(file_, kMostBytes);
    if (!text) {
      out_.findings.add(diag::make_at(rule::file_unreadable, {.file = file_.string()}, text.error().text()));
      return false;
    }
    schema::Validation validation = schema::validate_paths({}, {file_}, schema::FileKind::kResult);
    out_.findings.add_all(validation.diagnostics);
    result_ = json::parse(*text, nullptr, false);
    const auto contradicts = [](const diag::Diagnostic& d) {
      return d.severity != diag::Severity::kError || diag::rule_info(d.rule).slug.starts_with("result/");
    };
    const auto& items = out_.findings.items();
    return result_.is_object() && std::all_of(items.begin(), items.end(), contradicts);
  }

  void not_recomputed(std::string why) {
    out_.findings.add(diag::make_at(rule::result_not_recomputed, {.file = file_.string()}, std::move(why)));
  }

  void differs(const std::string& field, const json& stated, const json& recomputed) {
    json& list = out_.values["differences"];
    if (list.size() < kMostDifferences)
      list.push_back({{"field", field}, {"stated", stated}, {"recomputed", recomputed}});
  }

  // One finding for each part of the result: a changed request changes every figure of the latencies.
  void report_differences() {
    const json& list = out_.values["differences"];
    for (size_t i = 0; i < list.size();) {
      const auto field = list[i]["field"].get<std::string>();
      const std::string part = field.starts_with("conditions.") ? field : field.substr(0, field.find('.'));
      size_t end = i + 1;
      while (end < list.size() && list[end]["field"].get<std::string>().starts_with(part + ".")) ++end;
      std::string message =
          fmt::format("\"{}\" is {}, recomputed {}", field, shown(list[i]["stated"]), shown(list[i]["recomputed"]));
      if (end - i > 1) message += fmt::format("; {} more figures of \"{}\" differ", end - i - 1, part);
      diag::Diagnostic d =
          diag::make_at(rule::result_differs, {.file = file_.string()}, std::move(message),
                        "trust the raw records; `sha256sum -c SHA256SUMS` tells which file was changed");
      d.path = field;
      out_.findings.add(std::move(d));
      i = end;
    }
  }

  // Every figure of `recomputed` against the one at the same place.
  void compare(const json& recomputed, const json& stated, const std::string& field) {
    if (recomputed.is_object() && stated.is_object()) {
      for (const auto& [key, value] : recomputed.items()) {
        const auto found = stated.find(key);
        compare(value, found == stated.end() ? json() : *found, field.empty() ? key : field + "." + key);
      }
    } else if (!is_same(stated, recomputed)) {
      differs(field, stated, recomputed);
    }
  }

  void check_gpus() {
    const json& point = result_["point"];
    const auto gpus = report::number_at(point, "gpus").value_or(0);
    const auto tp = report::number_at(point, "tp").value_or(1);
    const auto pp = report::number_at(point, "pp").value_or(1);
    const auto rate = report::number_at(result_, "throughput/output_tokens_per_second");
    out_.values["gpus"] = report::at(point, "gpus");
    out_.values["output_tput_per_gpu"] = gpus > 0 && rate ? json(*rate / gpus) : json(nullptr);
    const json& job = report::at(result_, "provenance/job");
    if (gpus > 0 && gpus != tp * pp && !(job.is_object() && job.value("multinode", false)))
      out_.findings.add(
          diag::make_at(rule::result_gpu_conflict, {.file = file_.string()},
                        fmt::format("the point is of {:g} GPUs, and tp {:g} x pp {:g} is {:g}; figures per "
                                    "GPU are over {:g}",
                                    gpus, tp, pp, tp * pp, gpus)));
  }

  void check_requests() {
    const fs::path requests = folder_ / stage_file::kRequests;
    std::error_code error;
    if (!fs::exists(requests, error))
      return not_recomputed(
          fmt::format("there is no {} beside the result: latencies, throughput and verdict are only "
                      "stated",
                      stage_file::kRequests));
    auto read = sample::read_samples(requests);
    if (!read) return out_.findings.add(std::move(read).error());
    if (read->cut) out_.findings.add(std::move(*read->cut));
    const sample::Summary summary = sample::summarise(read->samples);
    json figures = report::request_figures(summary);
    // Of a version that did not state it.
    if (report::at(result_, "latency_ms/send_delay").is_null()) figures["latency_ms"].erase("send_delay");
    if (report::at(result_, "workload/most_in_flight").is_null()) figures["workload"].erase("most_in_flight");
    for (const auto& [section, recomputed] : figures.items()) compare(recomputed, result_[section], section);
    out_.values.update(figures);
    check_verdict(read->samples, summary);
  }

  std::optional<json> document(const char* name) {
    const auto text = base::read_file(folder_ / name, kMostBytes);
    json parsed = text ? json::parse(*text, nullptr, false) : json();
    if (parsed.is_object()) return parsed;
    not_recomputed(fmt::format("{} cannot be read: the verdict is only stated", (folder_ / name).string()));
    return std::nullopt;
  }

  // What the engine counted, from its answers at both ends of the window, where they are kept.
  void check_counted(const plan::Job& job, const json& measurement) {
    const engine::Framework* framework = engine::find_framework(job.framework);
    if (framework == nullptr) return;
    const auto text = [&](const char* name) {
      auto content = base::read_file(folder_ / name, kMostBytes);
      return content ? std::move(*content) : std::string();
    };
    const engine::Reading before{.counters = text(stage_file::kCountersBefore),
                                 .statistics = text(stage_file::kStatisticsBefore)};
    const engine::Reading after{.counters = text(stage_file::kCountersAfter),
                                .statistics = text(stage_file::kStatisticsAfter)};
    if (after.counters.empty() && after.statistics.empty()) return;
    compare(engine::to_json(engine::counted_between(*framework, before, after)), measurement.value("counted", json()),
            "counted");
  }

  void check_verdict(const std::vector<sample::Sample>& samples, const sample::Summary& summary) {
    const json& stated_job = report::at(result_, "provenance/job");
    const auto job = plan::job_from_json(stated_job);
    if (!job) return not_recomputed("the result does not hold its job: the verdict is only stated");
    const auto measurement = document(stage_file::kMeasurement);
    if (!measurement) return;
    check_counted(*job, *measurement);
    const PowerOutcome power = power_of(*job, folder_, *measurement, summary.completion_tokens);
    compare(power.document, result_["power"], "power");
    out_.values["power"] = power.document;
    if (power.report) out_.findings.add_all(power.report->findings);
    const json none = json::object();
    const auto part = [&](const char* key) -> const json& { return result_[key].is_object() ? result_[key] : none; };
    auto judged = judge_recorded({.job = *job,
                                  .samples = samples,
                                  .engine = part("engine"),
                                  .weights = part("weights"),
                                  .kernels = part("kernels"),
                                  .measurement = *measurement,
                                  .power = power});
    if (!judged) return out_.findings.add(std::move(judged).error());
    compare_conditions(judge::to_json(judged->verdict));
    if (!judged->acceptance) return;
    const judge::Realised& realised = *judged->acceptance;
    const auto count = [](const std::optional<int64_t>& value) { return value ? json(*value) : json(nullptr); };
    compare({{"realised", realised.length}, {"steps", count(realised.steps)}, {"accepted", count(realised.accepted)}},
            result_["acceptance"], "acceptance");
  }

  void compare_conditions(const json& verdict) {
    const json& stated = result_["conditions"];
    for (const json& condition : verdict["conditions"]) {
      const auto same =
          std::find_if(stated.begin(), stated.end(), [&](const json& c) { return c["rule"] == condition["rule"]; });
      const std::string field = fmt::format("conditions.{}", condition["rule"].get<std::string>());
      if (same == stated.end())
        differs(field, nullptr, condition["outcome"]);
      else if ((*same)["outcome"] != condition["outcome"])
        differs(field, (*same)["outcome"], condition["outcome"]);
    }
    compare(verdict["valid"], result_["valid"], "valid");
  }

  void conclude() {
    for (const diag::Diagnostic& d : out_.findings.items())
      if (d.severity == diag::Severity::kError) out_.reasons.push_back(d.message);
    if (result_["valid"] != true)
      for (const json& reason : result_["reasons"])
        if (reason.is_string()) out_.reasons.push_back(reason.get<std::string>());
    out_.valid = result_["valid"] == true && out_.reasons.empty();
  }

  fs::path file_;
  fs::path folder_;
  json result_;
  report::Inspection out_;
};

}  // namespace

report::Inspection recheck(const fs::path& file) {
  return Recheck(file).run();
}

}  // namespace sweep::pipeline
