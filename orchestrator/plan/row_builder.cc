#include "orchestrator/plan/row_builder.h"

#include <fmt/format.h>

namespace sweep::plan {

namespace {

using schema::MatrixEntry;
using schema::Point;
using schema::PointView;
using schema::Worker;

constexpr int64_t kLengthMargin = 256;     // the peer's room above isl + osl in max-model-len
constexpr int64_t kAgenticSeconds = 3600;  // the peer's fixed duration of agentic points

std::string_view spec_name(const Point& point) {
  return schema::choice_name(point.spec_decoding.value_or(schema::SpecDecoding::kNone));
}

std::string_view offload_name(const Point& point) {
  return schema::choice_name(point.kv_offloading.value_or(schema::KvOffloading::kNone));
}

constexpr size_t kMostFields = 32;  // of a row; a row that grows copies all its names

Row empty_row() {
  Row row = Row::object();
  row.get_ref<Row::object_t&>().reserve(kMostFields);
  return row;
}

Row component_row(const schema::Component& component) {
  Row row = {{"name", component.name.value}};
  if (component.version) put(row, "version", component.version.value);
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
  put(row, "image", entry.image.value);
  put(row, "model", entry.model.value);
  put(row, "model-prefix", entry.model_prefix.value);
  put(row, "precision", entry.precision.value);
  put(row, "framework", entry.framework.value);
  put(row, "runner", input.runner);
}

// A setting of the entry that the point states too, if only as empty, is hidden by it.
bool is_hidden(const PointView& view, std::string_view field) {
  return view.source != nullptr && view.source->find_entry(field) != nullptr;
}

void put_router(Row& row, const PointView& view) {
  if (!view.point->router && is_hidden(view, "router")) return;
  const auto& router = view.point->router ? view.point->router : view.entry->router;
  if (router) put(row, "router", component_row(*router));
}

void put_transfer(Row& row, const PointView& view) {
  if (!view.point->kv_p2p_transfer && is_hidden(view, "kv-p2p-transfer")) return;
  const schema::Text& transfer =
      view.point->kv_p2p_transfer ? view.point->kv_p2p_transfer : view.entry->kv_p2p_transfer;
  if (transfer) put(row, "kv-p2p-transfer", *transfer);
}

void put_ranks(Row& row, const Point& point) {
  put(row, "tp", point.tp.value_or(1));
  put(row, "pp", point.pp.value_or(1));
  put(row, "dcp-size", point.dcp_size.value_or(1));
  put(row, "pcp-size", point.pcp_size.value_or(1));
}

// What only our entries state; the peer's rows never hold it.
void put_policy(Row& row, const PointView& view) {
  const MatrixEntry& entry = *view.entry;
  if (entry.revision) put(row, "revision", *entry.revision);
  if (const schema::Text& recipe = entry.recipe_of(*view.point)) put(row, "recipe", *recipe);
  if (const schema::Integer& drafts = entry.draft_tokens_of(*view.point)) put(row, "num-draft-tokens", *drafts);
  if (const auto& acceptance = entry.acceptance_of(*view.point)) {
    Row setting = {{"source", schema::choice_name(acceptance->source.value)}};
    if (acceptance->length) setting["length"] = *acceptance->length;
    put(row, "acceptance", std::move(setting));
  }
  if (entry.exact_lengths) put(row, "exact-lengths", *entry.exact_lengths);
  if (entry.research_only.value) put(row, "research-only", true);
  if (!entry.is_ready()) put(row, "status", schema::choice_name(*entry.status));
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

std::string fixed_name(const PointView& view) {
  return fmt::format("{}_{}", view.entry->model_prefix.value,
                     length_text(view.fixed->isl.value, view.fixed->osl.value));
}

// What a single-node row says of its serving process, and a multi-node row of its workers.
void put_serving(Row& row, const RowInput& input) {
  put(row, "ep", input.ep ? *input.ep : input.view->point->ep.value_or(1));
  put(row, "dp-attn", input.view->point->dp_attn.value);
  put(row, "spec-decoding", spec_name(*input.view->point));
}

void put_workers(Row& row, const RowInput& input) {
  put(row, "spec-decoding", spec_name(*input.view->point));
  put(row, "prefill", worker_row(*input.view, "prefill"));
  put(row, "decode", worker_row(*input.view, "decode"));
  put(row, "conc", input.concurrencies);
}

Row fixed_row(const RowInput& input) {
  const PointView& view = *input.view;
  const bool multi = view.point->is_multi_node();
  Row row = empty_row();
  put_identity(row, input);
  put(row, "isl", view.fixed->isl.value);
  put(row, "osl", view.fixed->osl.value);
  if (multi) {
    put_workers(row, input);
  } else {
    put_ranks(row, *view.point);
    put(row, "conc", input.concurrencies.front());
  }
  put(row, "max-model-len", view.fixed->isl.value + view.fixed->osl.value + kLengthMargin);
  if (!multi) put_serving(row, input);
  put(row, "exp-name", fixed_name(view));
  put(row, "disagg", view.entry->disagg.value);
  put(row, "run-eval", false);
  put_router(row, view);
  if (multi) put_transfer(row, view);
  return row;
}

void put_offload_backend(Row& row, const PointView& view) {
  const yaml::Node* backend = view.source == nullptr ? nullptr : view.source->find("kv-offload-backend");
  if (backend != nullptr && !backend->is_null()) put(row, "kv-offload-backend", value_row(*backend));
}

Row agentic_row(const RowInput& input) {
  const PointView& view = *input.view;
  const bool multi = view.point->is_multi_node();
  Row row = empty_row();
  put_identity(row, input);
  if (multi) {
    put_workers(row, input);
  } else {
    put_ranks(row, *view.point);
    put_serving(row, input);
    put(row, "conc", input.concurrencies.front());
  }
  put(row, "kv-offloading", offload_name(*view.point));
  put(row, "total-cpu-dram-gb", input.total_cpu_dram_gb);
  put(row, "duration", kAgenticSeconds);
  put(row, "exp-name", agentic_name(input));
  if (multi) put(row, "disagg", view.entry->disagg.value);
  put(row, "scenario-type", schema::choice_name(schema::ScenarioKind::kAgenticCoding));
  put_offload_backend(row, view);
  put_router(row, view);
  if (multi) put_transfer(row, view);
  return row;
}

}  // namespace

RowKind kind_of(const PointView& view) {
  const bool multi = view.point->is_multi_node();
  if (view.fixed != nullptr) return multi ? RowKind::kMultiFixed : RowKind::kSingleFixed;
  return multi ? RowKind::kMultiAgentic : RowKind::kSingleAgentic;
}

BuiltRow build_row(const RowInput& input) {
  BuiltRow built{.kind = kind_of(*input.view), .row = {}, .entry = input.view->entry, .point = input.view->point};
  built.row = built.is_agentic() ? agentic_row(input) : fixed_row(input);
  put_policy(built.row, *input.view);
  return built;
}

}  // namespace sweep::plan
