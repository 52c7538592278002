// Points that would run twice, and points whose results would be filed under one name.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <tuple>
#include <unordered_map>

#include "orchestrator/diag/rules/matrix.h"
#include "orchestrator/schema/rules.h"

namespace sweep::schema {

namespace {

namespace rule = diag::rule;

bool is_concurrency(std::string_view key) {
  return key == "conc-list" || key == "conc-start" || key == "conc-end";
}

// The settings of a point in one spelling, concurrencies left out.
void append_canonical(std::string& out, const yaml::Node& node, bool top) {
  if (node.is_map()) {
    std::vector<const yaml::Entry*> entries;
    for (const yaml::Entry& entry : node.entries)
      if (!top || !is_concurrency(entry.key)) entries.push_back(&entry);
    std::sort(entries.begin(), entries.end(), [](auto* a, auto* b) { return a->key < b->key; });
    for (const yaml::Entry* entry : entries) {
      out += entry->key;
      out += '{';
      append_canonical(out, entry->value, false);
      out += '}';
    }
    return;
  }
  for (const yaml::Node& item : node.items) {
    out += '[';
    append_canonical(out, item, false);
    out += ']';
  }
  out += node.text;
}

void append(std::string& out, std::string_view label, int64_t value) {
  out.append(label).append(std::to_string(value));
}

void append_ranks(std::string& out, int64_t tp, const Integer& pp, const Integer& dcp, const Integer& pcp) {
  append(out, "tp", tp);
  append(out, "-pp", pp.value_or(1));
  append(out, "-dcp", dcp.value_or(1));
  append(out, "-pcp", pcp.value_or(1));
}

void append_worker(std::string& out, const Worker& worker) {
  append_ranks(out, worker.tp.value, worker.pp, worker.dcp_size, worker.pcp_size);
  append(out, "-ep", worker.ep.value_or(1));
  out += worker.dp_attn.value ? "-dptrue" : "-dpfalse";
  append(out, "-nw", worker.num_worker.value);
}

// The result name of a point without its concurrency (InferenceX, .github/workflows/benchmark-tmpl.yml).
std::string result_name(const PointView& view) {
  const MatrixEntry& entry = *view.entry;
  const Point& point = *view.point;
  std::string name;
  name.reserve(192);
  name += entry.model_prefix.value;
  if (view.fixed != nullptr) {
    append(name, "_", view.fixed->isl.value);
    append(name, "_", view.fixed->osl.value);
  } else {
    name.append("_agentic_kv").append(choice_name(point.kv_offloading.value_or(KvOffloading::kNone))).append(1, '-');
    if (point.kv_offload_backend) name += point.kv_offload_backend->name.value;
  }
  name.append(1, '_').append(entry.precision.value).append(1, '_').append(entry.framework.value).append(1, '_');
  if (point.prefill && point.decode) {
    append_worker(name += "prefill-", *point.prefill);
    append_worker(name += "_decode-", *point.decode);
  } else {
    append_ranks(name, point.tp.value, point.pp, point.dcp_size, point.pcp_size);
    append(name, "-ep", point.ep.value_or(1));
    name += point.dp_attn.value ? "-dpatrue" : "-dpafalse";
  }
  name += entry.disagg.value ? "_disagg-true" : "_disagg-false";
  name.append("_spec-").append(choice_name(point.spec_decoding.value_or(SpecDecoding::kNone)));
  return name.append(1, '_').append(entry.runner.value);
}

struct Described {
  PointView view;
  std::string settings;
  std::vector<int64_t> concurrencies;  // sorted, without repeats
};

bool same_identity(const MatrixEntry& a, const MatrixEntry& b) {
  if (&a == &b) return true;
  const auto parts = [](const MatrixEntry& e) {
    return std::tie(e.image.value, e.model.value, e.kv_p2p_transfer.value, e.recipe.value, e.revision.value,
                    e.research_only.value);
  };
  const auto router = [](const MatrixEntry& e) {
    return e.router ? std::pair{e.router->name.value, e.router->version.value}
                    : std::pair{std::string(), std::string()};
  };
  return parts(a) == parts(b) && router(a) == router(b) && !a.acceptance && !b.acceptance &&
         a.num_draft_tokens.value == b.num_draft_tokens.value;
}

std::string list_text(const std::vector<int64_t>& values) {
  return fmt::format("{} {}", values.size() == 1 ? "concurrency" : "concurrencies", fmt::join(values, ", "));
}

class DuplicateCheck {
 public:
  DuplicateCheck(std::vector<Described> points, diag::Diagnostics& out) : points_(std::move(points)), out_(out) {}

  void run() {
    std::unordered_map<std::string, std::vector<size_t>> by_name;
    for (size_t i = 0; i < points_.size(); ++i) {
      std::vector<size_t>& same = by_name[result_name(points_[i].view)];
      for (const size_t other : same)
        if (compare(points_[other], points_[i])) break;
      if (same.size() < kMostCompared) same.push_back(i);
    }
  }

 private:
  // A name that more points share is reported often enough; keeps the work linear.
  static constexpr size_t kMostCompared = 8;

  // A result name of several nodes holds all concurrencies of its point; those of one node hold one each. Agentic
  // points are dispatched one concurrency at a time everywhere.
  static std::vector<int64_t> shared(const Described& a, const Described& b) {
    if (a.view.fixed != nullptr && a.view.point->is_multi_node())
      return a.concurrencies == b.concurrencies ? a.concurrencies : std::vector<int64_t>{};
    std::vector<int64_t> both;
    std::set_intersection(a.concurrencies.begin(), a.concurrencies.end(), b.concurrencies.begin(),
                          b.concurrencies.end(), std::back_inserter(both));
    return both;
  }

  // Entries that pin their weights or state an acceptance have results in folders of their own.
  static bool has_peer_name(const MatrixEntry& entry) {
    return !entry.revision && !entry.acceptance && !entry.num_draft_tokens && !entry.research_only.value;
  }

  bool compare(const Described& first, const Described& second) {
    const std::vector<int64_t> both = shared(first, second);
    if (both.empty()) return false;
    const bool same = same_identity(*first.view.entry, *second.view.entry) && first.settings == second.settings;
    if (!same && !(has_peer_name(*first.view.entry) && has_peer_name(*second.view.entry))) return false;
    const PointView& view = second.view;
    diag::Diagnostic d =
        same
            ? finding(rule::matrix_duplicate_point, *view.entry->document, view.point->where, view.path,
                      fmt::format("this point at {} is described before", list_text(both)),
                      "remove one of the two, or give them different concurrencies")
            : finding(rule::matrix_result_name, *view.entry->document, view.point->where, view.path,
                      fmt::format("results at {} get the name of another point's", list_text(both)),
                      "give the points different concurrencies or sizes, or append the recipe fingerprint to the name");
    d.notes.push_back({fmt::format("{} entry \"{}\"", same ? "first described here, in" : "the other point is here, in",
                                   first.view.entry->key),
                       first.view.entry->document->span(first.view.point->where)});
    out_.add(std::move(d));
    return true;
  }

  std::vector<Described> points_;
  diag::Diagnostics& out_;
};

}  // namespace

void check_duplicate_points(const Checkout& checkout, diag::Diagnostics& out) {
  std::vector<Described> points;
  std::set<std::string_view> keys;
  for (const MatrixEntry& entry : checkout.entries) {
    if (!keys.insert(entry.key).second) continue;  // reported as a whole
    for (PointView& view : points_of(entry)) {
      const bool stated_twice = view.point->has_conc_list() && view.point->conc_start.stated();  // reported
      if (view.source == nullptr || stated_twice) continue;
      Described& described = points.emplace_back();
      described.concurrencies = concurrencies_of(*view.point);
      std::sort(described.concurrencies.begin(), described.concurrencies.end());
      described.concurrencies.erase(std::unique(described.concurrencies.begin(), described.concurrencies.end()),
                                    described.concurrencies.end());
      append_canonical(described.settings, *view.source, true);
      described.view = std::move(view);
    }
  }
  DuplicateCheck(std::move(points), out).run();
}

}  // namespace sweep::schema
