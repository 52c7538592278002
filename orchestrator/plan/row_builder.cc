#include "orchestrator/plan/row_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "orchestrator/diag/rules/matrix.h"
#include "orchestrator/yaml/scalar.h"

namespace sweep::plan {

namespace {

using schema::MatrixEntry;
using schema::Point;
using schema::PointView;
using schema::Worker;

constexpr int64_t kLengthMargin = 256;     // the peer's room above isl + osl in max-model-len
constexpr int64_t kAgenticSeconds = 3600;  // the peer's fixed duration of agentic points

std::string length_text(int64_t isl, int64_t osl) {
  if (isl == 1024 && osl == 1024) return "1k1k";
  if (isl == 8192 && osl == 1024) return "8k1k";
  return fmt::format("{}_{}", isl, osl);
}

std::string_view spec_name(const Point& point) {
  return schema::choice_name(point.spec_decoding.value_or(schema::SpecDecoding::kNone));
}

std::string_view offload_name(const Point& point) {
  return schema::choice_name(point.kv_offloading.value_or(schema::KvOffloading::kNone));
}

Row component_row(const schema::Component& component) {
  Row row = {{"name", component.name.value}};
  if (component.version) row["version"] = component.version.value;
  return row;
}

// Workers are copied as written; the sizes that the row schema needs are filled in at the end.
Row worker_row(const PointView& view, std::string_view role) {
  Row row = Row::object();
  if (view.source != nullptr)
    if (const yaml::Node* node = view.source->find(role)) row = value_row(*node);
  for (const char* size : {"pp", "dcp-size", "pcp-size"})
    if (!row.contains(size)) row[size] = 1;
  return row;
}

void put_identity(Row& row, const RowInput& input) {
  const MatrixEntry& entry = *input.view->entry;
  row["image"] = entry.image.value;
  row["model"] = entry.model.value;
  row["model-prefix"] = entry.model_prefix.value;
  row["precision"] = entry.precision.value;
  row["framework"] = entry.framework.value;
  row["runner"] = input.runner;
}

// A setting of the entry that the point states too, if only as empty, is hidden by it.
bool is_hidden(const PointView& view, std::string_view field) {
  return view.source != nullptr && view.source->find_entry(field) != nullptr;
}

void put_router(Row& row, const PointView& view) {
  if (!view.point->router && is_hidden(view, "router")) return;
  const auto& router = view.point->router ? view.point->router : view.entry->router;
  if (router) row["router"] = component_row(*router);
}

void put_transfer(Row& row, const PointView& view) {
  if (!view.point->kv_p2p_transfer && is_hidden(view, "kv-p2p-transfer")) return;
  const schema::Text& transfer =
      view.point->kv_p2p_transfer ? view.point->kv_p2p_transfer : view.entry->kv_p2p_transfer;
  if (transfer) row["kv-p2p-transfer"] = *transfer;
}

void put_ranks(Row& row, const Point& point) {
  row["tp"] = point.tp.value_or(1);
  row["pp"] = point.pp.value_or(1);
  row["dcp-size"] = point.dcp_size.value_or(1);
  row["pcp-size"] = point.pcp_size.value_or(1);
}

// What only our entries state; the peer's rows never hold it.
void put_policy(Row& row, const PointView& view) {
  const MatrixEntry& entry = *view.entry;
  if (entry.revision) row["revision"] = *entry.revision;
  if (const schema::Text& recipe = entry.recipe_of(*view.point)) row["recipe"] = *recipe;
  if (const schema::Integer& drafts = entry.draft_tokens_of(*view.point)) row["num-draft-tokens"] = *drafts;
  if (const auto& acceptance = entry.acceptance_of(*view.point)) {
    row["acceptance"] = {{"source", schema::choice_name(acceptance->source.value)}};
    if (acceptance->length) row["acceptance"]["length"] = *acceptance->length;
  }
  if (entry.exact_lengths) row["exact-lengths"] = *entry.exact_lengths;
  if (entry.research_only.value) row["research-only"] = true;
  if (!entry.is_ready()) row["status"] = schema::choice_name(*entry.status);
}

std::string worker_name(const Worker& worker, char role) {
  std::string name = fmt::format("{}{}x{}", role, worker.num_worker.value, worker.tp.value);
  if (worker.ep.value_or(1) != 1) name += fmt::format("ep{}", *worker.ep);
  if (worker.dp_attn.value) name += "dpa";
  return name;
}

std::string offload_suffix(const Point& point) {
  const std::string backend = point.kv_offload_backend ? point.kv_offload_backend->name.value : std::string();
  return fmt::format("kv{}-{}", offload_name(point), backend);
}

std::string agentic_name(const RowInput& input) {
  const PointView& view = *input.view;
  const Point& point = *view.point;
  const bool offloads = point.kv_offloading.value_or(schema::KvOffloading::kNone) != schema::KvOffloading::kNone;
  const std::string& prefix = view.entry->model_prefix.value;
  const int64_t concurrency = input.concurrencies.front();
  if (point.is_multi_node()) {
    std::string name = fmt::format("{}_{}_{}_conc{}", prefix, worker_name(*point.prefill, 'p'),
                                   worker_name(*point.decode, 'd'), concurrency);
    return offloads ? name + "_" + offload_suffix(point) : name;
  }
  std::string name = fmt::format("{}_tp{}_conc{}_{}", prefix, point.tp.value, concurrency,
                                 offloads ? offload_suffix(point) : "kvnone");
  if (spec_name(point) != "none") name += fmt::format("_spec-{}", spec_name(point));
  return name;
}

void put_lengths(Row& row, const PointView& view) {
  row["isl"] = view.fixed->isl.value;
  row["osl"] = view.fixed->osl.value;
}

std::string fixed_name(const PointView& view) {
  return fmt::format("{}_{}", view.entry->model_prefix.value,
                     length_text(view.fixed->isl.value, view.fixed->osl.value));
}

Row single_fixed(const RowInput& input) {
  const PointView& view = *input.view;
  Row row;
  put_identity(row, input);
  put_lengths(row, view);
  put_ranks(row, *view.point);
  row["conc"] = input.concurrencies.front();
  row["max-model-len"] = view.fixed->isl.value + view.fixed->osl.value + kLengthMargin;
  row["ep"] = input.ep ? *input.ep : view.point->ep.value_or(1);
  row["dp-attn"] = view.point->dp_attn.value;
  row["spec-decoding"] = spec_name(*view.point);
  row["exp-name"] = fixed_name(view);
  row["disagg"] = view.entry->disagg.value;
  row["run-eval"] = false;
  put_router(row, view);
  return row;
}

Row multi_fixed(const RowInput& input) {
  const PointView& view = *input.view;
  Row row;
  put_identity(row, input);
  put_lengths(row, view);
  row["spec-decoding"] = spec_name(*view.point);
  row["prefill"] = worker_row(view, "prefill");
  row["decode"] = worker_row(view, "decode");
  row["conc"] = input.concurrencies;
  row["max-model-len"] = view.fixed->isl.value + view.fixed->osl.value + kLengthMargin;
  row["exp-name"] = fixed_name(view);
  row["disagg"] = view.entry->disagg.value;
  row["run-eval"] = false;
  put_router(row, view);
  put_transfer(row, view);
  return row;
}

void put_offload_backend(Row& row, const PointView& view) {
  const yaml::Node* backend = view.source == nullptr ? nullptr : view.source->find("kv-offload-backend");
  if (backend != nullptr && !backend->is_null()) row["kv-offload-backend"] = value_row(*backend);
}

Row single_agentic(const RowInput& input) {
  const PointView& view = *input.view;
  Row row;
  put_identity(row, input);
  put_ranks(row, *view.point);
  row["ep"] = view.point->ep.value_or(1);
  row["dp-attn"] = view.point->dp_attn.value;
  row["spec-decoding"] = spec_name(*view.point);
  row["conc"] = input.concurrencies.front();
  row["kv-offloading"] = offload_name(*view.point);
  row["total-cpu-dram-gb"] = input.total_cpu_dram_gb;
  row["duration"] = kAgenticSeconds;
  row["exp-name"] = agentic_name(input);
  row["scenario-type"] = schema::choice_name(schema::ScenarioKind::kAgenticCoding);
  put_offload_backend(row, view);
  put_router(row, view);
  return row;
}

Row multi_agentic(const RowInput& input) {
  const PointView& view = *input.view;
  Row row;
  put_identity(row, input);
  row["spec-decoding"] = spec_name(*view.point);
  row["prefill"] = worker_row(view, "prefill");
  row["decode"] = worker_row(view, "decode");
  row["conc"] = input.concurrencies;
  row["kv-offloading"] = offload_name(*view.point);
  row["total-cpu-dram-gb"] = input.total_cpu_dram_gb;
  row["duration"] = kAgenticSeconds;
  row["exp-name"] = agentic_name(input);
  row["disagg"] = view.entry->disagg.value;
  row["scenario-type"] = schema::choice_name(schema::ScenarioKind::kAgenticCoding);
  put_offload_backend(row, view);
  put_router(row, view);
  put_transfer(row, view);
  return row;
}

// A decimal text as a fraction with a power of ten below.
struct Fraction {
  int64_t numerator = 0;
  int64_t denominator = 1;
};
Fraction fraction_of(double value) {
  constexpr int kDigits = 9;  // utilisations have two
  Fraction fraction;
  std::string text = fmt::format("{:.{}f}", value, kDigits);
  text.erase(text.find('.'), 1);
  std::from_chars(text.data(), text.data() + text.size(), fraction.numerator);
  for (int i = 0; i < kDigits; ++i) fraction.denominator *= 10;
  return fraction;
}

// GPUs of a node that share the host memory with this point; 0 if the point does not fit.
int64_t sharing_gpus(const Point& point, int64_t per_node) {
  if (!point.is_multi_node()) return point.gpus() <= per_node ? point.gpus() : 0;
  const int64_t worker = point.prefill->gpus_per_worker();
  if (worker > per_node) return worker % per_node == 0 ? per_node : 0;
  return per_node % worker == 0 ? worker : 0;
}

void escape(std::string& out, const std::string& text) {
  out += Row(text).dump(-1, ' ', true, Row::error_handler_t::replace);
}

void write(std::string& out, const Row& value) {
  if (value.is_object()) {
    out += '{';
    bool first = true;
    for (const auto& [key, item] : value.items()) {
      if (!first) out += ", ";
      first = false;
      escape(out, key);
      out += ": ";
      write(out, item);
    }
    out += '}';
  } else if (value.is_array()) {
    out += '[';
    bool first = true;
    for (const Row& item : value) {
      if (!first) out += ", ";
      first = false;
      write(out, item);
    }
    out += ']';
  } else if (value.is_string()) {
    escape(out, value.get_ref<const std::string&>());
  } else {
    out += value.dump();
  }
}

}  // namespace

RowKind kind_of(const PointView& view) {
  const bool multi = view.point->is_multi_node();
  if (view.fixed != nullptr) return multi ? RowKind::kMultiFixed : RowKind::kSingleFixed;
  return multi ? RowKind::kMultiAgentic : RowKind::kSingleAgentic;
}

BuiltRow build_row(const RowInput& input) {
  BuiltRow built;
  built.kind = kind_of(*input.view);
  switch (built.kind) {
    case RowKind::kSingleFixed:
      built.row = single_fixed(input);
      break;
    case RowKind::kMultiFixed:
      built.row = multi_fixed(input);
      break;
    case RowKind::kSingleAgentic:
      built.row = single_agentic(input);
      break;
    case RowKind::kMultiAgentic:
      built.row = multi_agentic(input);
      break;
  }
  put_policy(built.row, *input.view);
  return built;
}

// floor(min(MiB, cap) x 2^20 x utilisation x GPUs / GPUs per node / 10^9), exactly.
std::optional<int64_t> dram_budget(const PointView& view, const schema::Checkout& checkout, diag::Diagnostics& out) {
  constexpr int64_t kMostMib = 2'861'022;
  const Point& point = *view.point;
  if (point.kv_offloading.value_or(schema::KvOffloading::kNone) == schema::KvOffloading::kNone) return 0;
  const auto fail = [&](std::string message) {
    diag::Diagnostic d = diag::make_at(diag::rule::plan_dram_budget,
                                       view.entry->document->span(point.kv_offloading.where), std::move(message));
    d.path = view.path + ".kv-offloading";
    out.add(std::move(d));
    return std::nullopt;
  };
  const schema::RunnerHardware* hardware = checkout.runners.find_hardware(view.entry->runner.value);
  if (hardware == nullptr || !hardware->available_cpu_dram_mib || hardware->gpus_per_node.value < 1)
    return fail(fmt::format("the host memory of runner \"{}\" is not known", view.entry->runner.value));
  const int64_t per_node = *hardware->gpus_per_node;
  const int64_t gpus = sharing_gpus(point, per_node);
  if (gpus == 0) return fail(fmt::format("the point does not fit on nodes of {} GPUs", per_node));
  const Fraction share = fraction_of(view.agentic->dram_utilization.value);
  __extension__ using Wide = unsigned __int128;
  const Wide bytes = static_cast<Wide>(std::min(*hardware->available_cpu_dram_mib, kMostMib)) * (1u << 20);
  const Wide numerator = bytes * static_cast<Wide>(share.numerator) * static_cast<Wide>(gpus);
  const Wide denominator =
      static_cast<Wide>(share.denominator) * static_cast<Wide>(per_node) * static_cast<Wide>(1'000'000'000);
  return static_cast<int64_t>(numerator / denominator);
}

Row value_row(const yaml::Node& node) {
  if (node.is_map()) {
    Row object = Row::object();
    for (const yaml::Entry& entry : node.entries) object[entry.key] = value_row(entry.value);
    return object;
  }
  if (node.is_sequence()) {
    Row list = Row::array();
    for (const yaml::Node& item : node.items) list.push_back(value_row(item));
    return list;
  }
  if (node.is_null()) return nullptr;
  if (const auto boolean = yaml::decode_boolean(node)) return *boolean;
  if (const auto integer = yaml::decode_integer(node)) return *integer;
  if (const auto number = yaml::decode_number(node)) return *number;
  return node.text;
}

std::string row_text(const Row& row) {
  std::string out;
  write(out, row);
  return out;
}

}  // namespace sweep::plan
