#include "orchestrator/weights/shard_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "orchestrator/base/file.h"
#include "orchestrator/diag/rules/weights.h"
#include "orchestrator/weights/content_kind.h"
#include "orchestrator/weights/safetensors.h"

namespace sweep::weights {

namespace {

constexpr uint64_t kLargestIndex = uint64_t{256} << 20;
constexpr size_t kMostNamedTensors = 3;

using Headers = std::map<std::string, ShardHeader, std::less<>>;

class ShardCheck {
 public:
  ShardCheck(const Staging& staging, const Pin& pin, diag::Diagnostics& diagnostics)
      : staging_(staging), pin_(pin), diagnostics_(diagnostics) {
    for (const StagedFile& file : staging.files) staged_by_path_.emplace(file.path, &file);
    for (const PinnedFile& file : pin.files) pinned_paths_.insert(file.path);
  }

  void run() {
    for (const StagedFile& file : staging_.files)
      if (file.path.ends_with(kShardSuffix)) read_header(file);
    const StagedFile* index_file = staged(kIndexName);
    if (index_file == nullptr) return;
    const auto text = base::read_file(index_file->opened, kLargestIndex);
    if (!text) return add(diag::rule::weights_unreadable, std::string(kIndexName), text.error().text());
    const auto index = parse_index(*text, index_file->path, diagnostics_);
    if (!index) return;
    check_map(*index);
    check_totals(*index);
  }

 private:
  const StagedFile* staged(std::string_view path) const {
    const auto found = staged_by_path_.find(path);
    return found == staged_by_path_.end() ? nullptr : found->second;
  }
  void read_header(const StagedFile& file);
  void add(diag::RuleId rule, const std::string& path, std::string message) {
    diag::Diagnostic diagnostic = diag::make(rule, std::move(message));
    diagnostic.path = path;
    diagnostics_.add(std::move(diagnostic));
  }
  void check_map(const ShardIndex& index);
  void check_totals(const ShardIndex& index);
  void report_tensors(const std::string& shard, const std::vector<std::string>& tensors, std::string_view what);

  const Staging& staging_;
  const Pin& pin_;
  diag::Diagnostics& diagnostics_;
  std::unordered_map<std::string_view, const StagedFile*> staged_by_path_;
  std::unordered_set<std::string_view> pinned_paths_;
  Headers headers_;
  bool all_readable_ = true;
};

// A page or a pointer in place of a shard is named as what it is, not as a broken header.
void ShardCheck::read_header(const StagedFile& file) {
  diag::Diagnostics problems;
  if (auto header = read_shard_header(file.opened, file.path, problems)) {
    headers_[file.path] = std::move(*header);
  } else {
    all_readable_ = false;
    if (const auto content = foreign_content(file.opened, file.path)) {
      diag::Diagnostic finding = diag::make(diag::rule::weights_wrong_content,
                                            fmt::format("\"{}\" holds {}", file.path, content->what), content->help);
      finding.path = file.path;
      return diagnostics_.add(std::move(finding));
    }
  }
  diagnostics_.add_all(problems);
}

void ShardCheck::report_tensors(const std::string& shard, const std::vector<std::string>& tensors,
                                std::string_view what) {
  if (tensors.empty()) return;
  std::string names;
  for (size_t i = 0; i < std::min(tensors.size(), kMostNamedTensors); ++i)
    names += fmt::format("{}\"{}\"", i == 0 ? "" : ", ", tensors[i]);
  if (tensors.size() > kMostNamedTensors) names += ", ...";
  add(diag::rule::weights_tensor_mismatch, shard,
      fmt::format("\"{}\": {} {} {}: {}", shard, tensors.size(), tensors.size() == 1 ? "tensor" : "tensors", what,
                  names));
}

void ShardCheck::check_map(const ShardIndex& index) {
  std::map<std::string, std::vector<std::string>> absent;  // by shard: mapped to it, not in its header
  std::map<std::string, size_t> missing_shards;            // by shard: tensors mapped to it
  for (const auto& [tensor, shard] : index.weight_map) {
    if (staged(shard) == nullptr) {
      // A pinned file that is not there, or was refused, is reported as that.
      if (!pinned_paths_.contains(shard) && !staging_.refused.contains(shard)) ++missing_shards[shard];
      continue;
    }
    const auto header = headers_.find(shard);
    if (header != headers_.end() && !header->second.tensor_bytes.contains(tensor)) absent[shard].push_back(tensor);
  }
  for (const auto& [shard, tensors] : missing_shards)
    add(diag::rule::weights_index_names_missing_shard, shard,
        fmt::format("the index places {} {} in \"{}\", which is neither pinned nor there", tensors,
                    tensors == 1 ? "tensor" : "tensors", shard));
  for (const auto& [shard, tensors] : absent) report_tensors(shard, tensors, "of the index not in it");
  std::set<std::string_view> named;
  for (const auto& [tensor, shard] : index.weight_map) named.insert(shard);
  for (const auto& [shard, header] : headers_) {
    if (!named.contains(shard)) continue;  // not one of its shards
    std::vector<std::string> unmapped;
    for (const auto& [tensor, bytes] : header.tensor_bytes) {
      const auto found = index.weight_map.find(tensor);
      if (found == index.weight_map.end() || found->second != shard) unmapped.push_back(tensor);
    }
    report_tensors(shard, unmapped, "not placed in it by the index");
  }
  if (pin_.index && pin_.index->tensor_count != index.weight_map.size())
    add(diag::rule::weights_tensor_mismatch, std::string(kIndexName),
        fmt::format("the index lists {} tensors, the pin says {}", index.weight_map.size(), pin_.index->tensor_count));
}

void ShardCheck::check_totals(const ShardIndex& index) {
  if (pin_.index && index.total_size && *index.total_size != pin_.index->total_size)
    add(diag::rule::weights_tensor_mismatch, std::string(kIndexName),
        fmt::format("the index gives a total of {} bytes, the pin {}", *index.total_size, pin_.index->total_size));
  std::set<std::string> shards;
  for (const auto& [tensor, shard] : index.weight_map) shards.insert(shard);
  uint64_t sum = 0;
  for (const std::string& shard : shards) {
    const auto header = headers_.find(shard);
    if (header == headers_.end()) return;  // reported already; a sum without it says nothing
    sum += header->second.data_bytes;
  }
  if (index.total_size && all_readable_ && sum != *index.total_size)
    add(diag::rule::weights_tensor_mismatch, std::string(kIndexName),
        fmt::format("the tensors of all shards take {} bytes, the index says {}", sum, *index.total_size));
}

}  // namespace

void check_shards(const Staging& staging, const Pin& pin, diag::Diagnostics& diagnostics) {
  ShardCheck(staging, pin, diagnostics).run();
}

}  // namespace sweep::weights
