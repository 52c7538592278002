#include "orchestrator/report/result.h"

#include <fmt/format.h>

#include "orchestrator/report/fields.h"

namespace sweep::report {

namespace {

using nlohmann::json;

json number(const std::optional<double>& value) {
  return value ? json(*value) : json(nullptr);
}

json distribution(const stats::Distribution& d) {
  return {{"mean", number(d.mean)}, {"stddev", number(d.stddev)}, {"min", number(d.min)}, {"max", number(d.max)},
          {"p50", number(d.p50)},   {"p90", number(d.p90)},       {"p99", number(d.p99)}, {"count", d.count}};
}

json count(const std::optional<int64_t>& value) {
  return value ? json(*value) : json(nullptr);
}

json acceptance(const Record& r) {
  json windows = json::array();
  for (const judge::Window& window : r.windows)
    windows.push_back(
        {{"steps", count(window.steps)}, {"accepted", count(window.accepted)}, {"acceptance_length", window.length}});
  const auto& asked = r.job.acceptance.length;
  const judge::Realised* realised = r.acceptance ? &*r.acceptance : nullptr;
  return {{"source", plan::acceptance_source_name(r.job.acceptance.source)},
          {"draft_tokens", r.job.num_draft_tokens},
          {"requested", number(asked)},
          {"realised", realised != nullptr ? json(realised->length) : json(nullptr)},
          {"read_from", realised != nullptr ? json(judge::acceptance_from_name(realised->from)) : json(nullptr)},
          {"tolerance", realised != nullptr ? number(judge::acceptance_tolerance(*realised, asked)) : json(nullptr)},
          {"steps", realised != nullptr ? count(realised->steps) : json(nullptr)},
          {"accepted", realised != nullptr ? count(realised->accepted) : json(nullptr)},
          {"accepted_per_position", r.accepted_per_position},
          {"windows", std::move(windows)}};
}

json throughput(const sample::Summary& s) {
  return {{"output_tokens_per_second", number(s.output_token_throughput)},
          {"total_tokens_per_second", number(s.total_token_throughput)},
          {"requests_per_second", number(s.request_throughput)},
          {"window_seconds", s.window ? json(s.window->seconds()) : json(nullptr)}};
}

json point(const plan::Job& job) {
  return {{"job_id", job.id},
          {"model", job.model},
          {"model_prefix", job.model_prefix},
          {"revision", job.revision},
          {"image", job.image},
          {"precision", job.precision},
          {"framework", job.framework},
          {"runner", job.runner},
          {"gpus", job.gpus},
          {"tp", job.tp},
          {"pp", job.pp},
          {"ep", job.ep},
          {"dp_attn", job.dp_attn},
          {"spec_decoding", job.spec_decoding},
          {"recipe", job.recipe}};
}

}  // namespace

Load load_from_json(const json& measurement) {
  const json& load = at(measurement, "load");
  Load result{.request_rate = number_at(load, "request_rate")};
  if (result.request_rate) result.arrivals = text_at(load, "arrivals");
  if (const json& api = at(load, "api"); api.is_string()) result.api = api.get<std::string>();
  if (const json& added = at(load, "template_tokens"); added.is_number_integer())
    result.template_tokens = added.get<int64_t>();
  return result;
}

std::vector<std::string> scope_statements(const plan::Job& job, const Load& load, const json& kernels) {
  std::vector<std::string> scope;
  if (job.framework == "embedded") {
    scope.push_back("engine: embedded. A small decoder with made-up weights; never comparable with a full model.");
    scope.push_back("Attention runs through the bundled FlashMLA kernels; everything else is this engine's own code.");
  }
  if (job.gpus == 0)
    scope.push_back("Measured on a CPU: no statement about any GPU.");
  else
    scope.push_back(fmt::format("{} GPUs of runner {}, TP {}: other SKUs, GPU counts and TP sizes are not covered.",
                                job.gpus, job.runner, job.tp));
  scope.push_back(fmt::format("{} prompt and {} output tokens {}, random prompt {}, no prefix cache.", job.isl, job.osl,
                              load.request_rate ? fmt::format("at {} requests/s", *load.request_rate)
                                                : fmt::format("at concurrency {}", job.concurrency),
                              load.template_tokens ? "words" : "tokens"));
  if (load.request_rate)
    scope.push_back(
        fmt::format("Open loop ({} arrivals): latencies count from when a request was due, and are not "
                    "comparable with those of a fixed concurrency.",
                    load.arrivals));
  if (load.template_tokens)
    scope.push_back(
        fmt::format("Prompts are chat messages: words of one token each, {} tokens of each prompt are the "
                    "server's template; their length is known from the server's usage alone.",
                    *load.template_tokens));
  if (job.acceptance.source == plan::AcceptanceSource::kExplicit && job.acceptance.length)
    scope.push_back(
        fmt::format("The acceptance length {} was forced: the figures say how fast the engine would be at that "
                    "acceptance, not that the drafts reach it.",
                    *job.acceptance.length));
  const std::string build =
      fmt::format("{}-{}", kernels.value("arch", "unknown"), kernels.value("content_id", "unknown"));
  scope.push_back(
      kernels.value("used_by_engine", true)
          ? fmt::format("Kernel build {}.", build)
          : fmt::format("Kernel build {} was gated on this host; the engine's attention ran through kernels "
                        "of its own, which were not.",
                        build));
  return scope;
}

json request_figures(const sample::Summary& s) {
  return {{"workload",
           {{"measured_requests", s.requests},
            {"failed_requests", s.failed},
            {"warmup_requests", s.warm_up_requests},
            {"most_in_flight", s.most_in_flight},
            {"prompt_tokens", s.prompt_tokens},
            {"output_tokens", s.completion_tokens}}},
          {"latency_ms",
           {{"ttft", distribution(s.ttft_ms)},
            {"tpot", distribution(s.tpot_ms)},
            {"itl", distribution(s.itl_ms)},
            {"inter_chunk", distribution(s.inter_chunk_ms)},
            {"e2el", distribution(s.e2e_ms)},
            {"send_delay", distribution(s.send_delay_ms)}}},
          {"throughput", throughput(s)}};
}

json result_document(const Record& r) {
  const json verdict = judge::to_json(r.verdict);
  json figures = request_figures(r.summary);
  json workload = {{"isl", r.job.isl},
                   {"osl", r.job.osl},
                   {"concurrency", r.job.concurrency},
                   {"load", r.load.request_rate ? "open-loop" : "closed-loop"},
                   {"request_rate", number(r.load.request_rate)},
                   {"arrivals", r.load.request_rate ? json(r.load.arrivals) : json(nullptr)},
                   {"api", r.load.api},
                   {"template_tokens", r.load.template_tokens ? json(*r.load.template_tokens) : json(nullptr)},
                   {"requests", r.planned_requests},
                   {"seed", r.seed}};
  workload.update(figures["workload"]);
  return {{"schema_version", kResultVersion},
          {"kind", "sweepctl-result"},
          {"tool", {{"name", "sweepctl"}, {"version", SWEEPCTL_VERSION}}},
          {"entry", r.job.entry},
          {"point", point(r.job)},
          {"engine", r.engine},
          {"valid", r.verdict.valid()},
          {"reasons", verdict["reasons"]},
          {"conditions", verdict["conditions"]},
          {"research_only", r.job.research_only},
          {"authorization", r.job.authorization},
          {"deviations", r.job.deviations},
          {"scope", scope_statements(r.job, r.load, r.kernels)},
          {"workload", std::move(workload)},
          {"acceptance", acceptance(r)},
          {"latency_ms", std::move(figures["latency_ms"])},
          {"throughput", std::move(figures["throughput"])},
          {"weights", r.weights},
          {"kernels", r.kernels},
          {"power", r.power},
          {"provenance", r.provenance}};
}

namespace {

// Of InferenceX, utils/aggregate_power.py, schema version 2: energy is that of all GPUs, over the named count.
void put_power(const Record& r, json& out) {
  if (!r.power.is_object() || !r.power.value("measured", false)) return;
  constexpr int kVersion = 2;
  out["power_metric_schema_version"] = kVersion;
  out["power_valid"] = r.power.value("valid", false) ? 1 : 0;
  const json energy = r.power.value("total_energy_j", json());
  if (!energy.is_number()) return;
  out["avg_power_w"] = r.power.value("avg_power_per_gpu_w", json());
  out["avg_total_gpu_power_w"] = r.power.value("avg_total_power_w", json());
  out["total_gpu_energy_j"] = energy;
  const sample::Summary& s = r.summary;
  for (const auto& [name, count] :
       {std::pair("joules_per_successful_query", s.requests - s.failed),
        std::pair("joules_per_input_token", s.prompt_tokens), std::pair("joules_per_output_token", s.completion_tokens),
        std::pair("joules_per_total_token", s.prompt_tokens + s.completion_tokens)})
    if (count > 0) out[name] = energy.get<double>() / static_cast<double>(count);
}

}  // namespace

json aggregate_document(const Record& r) {
  const plan::Job& job = r.job;
  json out = {{"hw", job.runner},
              {"image", job.image},
              {"model", job.model},
              {"infmax_model_prefix", job.model_prefix},
              {"framework", job.framework},
              {"precision", job.precision},
              {"spec_decoding", job.spec_decoding},
              {"disagg", false},
              {"recipe_fingerprint", ""},
              {"isl", job.isl},
              {"osl", job.osl},
              {"is_multinode", false},
              {"tp", job.tp},
              {"pp", job.pp},
              {"dcp_size", 1},
              {"pcp_size", 1},
              {"ep", job.ep},
              {"dp_attention", job.dp_attn ? "true" : "false"},
              {"research_only", job.research_only},
              {"valid", r.verdict.valid()}};
  // Dashboards place a point by its concurrency, which an open loop does not have.
  if (r.load.request_rate)
    out.update({{"request_rate", *r.load.request_rate}, {"arrivals", r.load.arrivals}});
  else
    out["conc"] = job.concurrency;
  if (job.gpus > 0 && r.summary.total_token_throughput && r.summary.output_token_throughput) {
    const auto gpus = static_cast<double>(job.tp * job.pp);
    out["tput_per_gpu"] = *r.summary.total_token_throughput / gpus;
    out["output_tput_per_gpu"] = *r.summary.output_token_throughput / gpus;
    out["input_tput_per_gpu"] = (*r.summary.total_token_throughput - *r.summary.output_token_throughput) / gpus;
  }
  put_power(r, out);
  constexpr double kMillisecondsPerSecond = 1000;
  const auto put = [&](const char* name, const stats::Distribution& d) {
    for (const auto& [prefix, value] : {std::pair("mean", d.mean), std::pair("median", d.p50),
                                        std::pair("std", d.stddev), std::pair("p90", d.p90), std::pair("p99", d.p99)})
      if (value) out[fmt::format("{}_{}", prefix, name)] = *value / kMillisecondsPerSecond;
  };
  put("ttft", r.summary.ttft_ms);
  put("tpot", r.summary.tpot_ms);
  put("itl", r.summary.inter_chunk_ms);  // the peer's ITL is the gap between chunks
  put("e2el", r.summary.e2e_ms);
  for (const auto& [prefix, value] :
       {std::pair("mean", r.summary.tpot_ms.mean), std::pair("median", r.summary.tpot_ms.p50)})
    if (value && *value > 0) out[fmt::format("{}_intvty", prefix)] = kMillisecondsPerSecond / *value;
  return out;
}

}  // namespace sweep::report
