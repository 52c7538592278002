#include "orchestrator/plan/buckets.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "orchestrator/diag/rules/matrix.h"
#include "orchestrator/plan/chunks.h"
#include "orchestrator/schema/rules.h"

namespace sweep::plan {

namespace {

namespace rule = diag::rule;

bool is_eval(const BuiltRow& built) {
  const auto found = built.row.find("eval-only");
  return found != built.row.end() && *found == true;
}

}  // namespace

void RowBuckets::add(const std::string& name, BuiltRow built) {
  auto found = std::find_if(lists.begin(), lists.end(), [&](const auto& list) { return list.first == name; });
  if (found == lists.end()) found = lists.insert(lists.end(), {name, {}});
  found->second.push_back(std::move(built));
}

std::string bucket_of(const BuiltRow& built) {
  if (built.is_agentic()) return "agentic";
  return length_text(built.row.at("isl").get<int64_t>(), built.row.at("osl").get<int64_t>());
}

std::string dispatch_bucket(const BuiltRow& built) {
  if (is_eval(built))
    return fmt::format("{}{}evals", built.is_multi_node() ? "multinode_" : "", built.is_agentic() ? "agentic_" : "");
  return fmt::format("{}/{}", built.is_multi_node() ? "multi_node" : "single_node", bucket_of(built));
}

std::vector<BuiltRow> drop_in_progress(std::vector<BuiltRow> rows, diag::Diagnostics& out) {
  std::vector<std::pair<const schema::MatrixEntry*, size_t>> dropped;
  for (const BuiltRow& built : rows) {
    if (!built.is_in_progress()) continue;
    const auto found =
        std::find_if(dropped.begin(), dropped.end(), [&](const auto& d) { return d.first == built.entry; });
    if (found == dropped.end())
      dropped.emplace_back(built.entry, 1);
    else
      ++found->second;
  }
  for (const auto& [entry, count] : dropped)
    out.add(schema::finding(rule::plan_in_progress, *entry->document, entry->status.where, entry->key + ".status",
                            fmt::format("{} row{} of \"{}\" {} left out: the entry is in progress", count,
                                        count == 1 ? "" : "s", entry->key, count == 1 ? "is" : "are"),
                            "set its status to ready once it can run"));
  std::erase_if(rows, [](const BuiltRow& built) { return built.is_in_progress(); });
  return rows;
}

std::vector<Bucket> texts_of(const RowBuckets& buckets) {
  std::vector<Bucket> texts;
  for (const auto& [name, rows] : buckets.lists) {
    Bucket& bucket = texts.emplace_back(Bucket{name, {}});
    for (const BuiltRow& built : rows)
      bucket.rows.push_back(dispatched_row(built).dump(-1, ' ', false, Row::error_handler_t::replace));
  }
  return texts;
}

void check_matrix_limit(size_t jobs, std::string_view what, diag::Diagnostics& out) {
  if (jobs > kMatrixJobs)
    out.add(diag::make(rule::plan_matrix_limit,
                       fmt::format("{} has {} rows, one Actions matrix holds {} jobs", what, jobs, kMatrixJobs),
                       "split the rows with --github, or select less"));
}

void check_dispatched(const RowBuckets& buckets, diag::Diagnostics& out) {
  for (const auto& [name, rows] : buckets.lists) {
    const BuiltRow& first = rows.front();
    const std::string length = bucket_of(first);
    if (is_eval(first) || length == "agentic" || length == "1k1k" || length == "8k1k") continue;
    diag::Diagnostic d = diag::make_at(
        rule::plan_not_dispatched, first.where(),
        fmt::format("bucket \"{}\" ({} row{}) has no job in the peer's sweep workflow", name, rows.size(),
                    rows.size() == 1 ? "" : "s"),
        "dispatch the chunks that --github writes, which hold every bucket, or use 1024/1024 or 8192/1024");
    d.path = first.path();
    out.add(std::move(d));
  }
}

}  // namespace sweep::plan
