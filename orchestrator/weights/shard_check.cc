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
#include <vector>

#include "orchestrator/base/file.h"
#include "orchestrator/diag/rules/weights.h"
#include "orchestrator/weights/content_kind.h"
#include "orchestrator/weights/safetensors.h"
#include "orchestrator/weights/shard_names.h"

namespace sweep::weights {

namespace {

constexpr size_t kMostNamedTensors = 3;
constexpr std::string_view kIndexSuffix = ".safetensors.index.json";

std::string counted(const std::vector<std::string_view>& tensors, std::string_view what) {
  std::string text = fmt::format("{} tensor{} {}: ", tensors.size(), tensors.size() == 1 ? "" : "s", what);
  for (size_t i = 0; i < std::min(tensors.size(), kMostNamedTensors); ++i)
    text += fmt::format("{}\"{}\"", i == 0 ? "" : ", ", tensors[i]);
  return tensors.size() > kMostNamedTensors ? text + ", ..." : text;
}

class ShardCheck {
 public:
  ShardCheck(const Staging& staging, const Pin& pin, diag::Diagnostics& diagnostics)
      : staging_(staging), pin_(pin), diagnostics_(diagnostics) {
    for (const StagedFile& file : staging.files) staged_.insert(file.path);
    for (const PinnedFile& file : pin.files) pinned_.insert(file.path);
  }

  void run() {
    for (const StagedFile& file : staging_.files)
      if (file.path.ends_with(kShardSuffix)) read_header(file);
    for (const StagedFile& file : staging_.files)
      if (file.path.ends_with(kIndexSuffix)) check_index(file);
  }

 private:
  // An index and its shards, whose names are relative to its folder.
  struct Indexed {
    const std::string& path;
    std::string folder;  // "" or with "/" at its end
    std::string stem;    // of the shards' names
    ShardIndex index;
    std::vector<std::string> shards;  // paths, as index.files
  };

  void add(diag::RuleId rule, const std::string& path, std::string message, std::string help = {}) {
    diag::Diagnostic diagnostic = diag::make(rule, std::move(message), std::move(help));
    diagnostic.path = path;
    diagnostics_.add(std::move(diagnostic));
  }
  void read_header(const StagedFile& file);
  void check_index(const StagedFile& file);
  void check_map(const Indexed& indexed);
  void check_tensors(const std::string& shard, const std::vector<std::string_view>& mapped);
  void check_totals(const Indexed& indexed);
  void check_names(const Indexed& indexed);

  const Staging& staging_;
  const Pin& pin_;
  diag::Diagnostics& diagnostics_;
  std::unordered_set<std::string_view> staged_;
  std::unordered_set<std::string_view> pinned_;
  std::unordered_map<std::string_view, ShardHeader> headers_;  // of the shards that could be read
};

// A page or a pointer in place of a shard is named as what it is, not as a broken header.
void ShardCheck::read_header(const StagedFile& file) {
  diag::Diagnostics problems;
  if (auto header = read_shard_header(file.opened, file.path, problems))
    headers_.emplace(file.path, std::move(*header));
  else if (const auto content = foreign_content(file.opened, file.path))
    return add(diag::rule::weights_wrong_content, file.path, fmt::format("\"{}\" holds {}", file.path, content->what),
               content->help);
  diagnostics_.add_all(problems);
}

void ShardCheck::check_index(const StagedFile& file) {
  const auto text = base::read_file(file.opened, kLargestIndex);
  if (!text) return add(diag::rule::weights_unreadable, file.path, text.error().text());
  auto index = parse_index(*text, file.path, diagnostics_);
  if (!index) return;
  const size_t name = file.path.rfind('/') + 1;  // npos + 1 is 0
  Indexed indexed{.path = file.path,
                  .folder = file.path.substr(0, name),
                  .stem = file.path.substr(name, file.path.size() - name - kIndexSuffix.size()),
                  .index = std::move(*index),
                  .shards = {}};
  for (const std::string& shard : indexed.index.files) indexed.shards.push_back(indexed.folder + shard);
  check_map(indexed);
  check_totals(indexed);
  check_names(indexed);
}

void ShardCheck::check_map(const Indexed& indexed) {
  std::vector<std::vector<std::string_view>> mapped(indexed.shards.size());  // tensors of each shard, by name
  for (const MappedTensor& tensor : indexed.index.weight_map) mapped[tensor.file].push_back(tensor.name);
  for (size_t i = 0; i < mapped.size(); ++i) {
    const std::string& shard = indexed.shards[i];
    if (mapped[i].empty()) continue;  // a name that leaves the folder, reported as that
    if (staged_.contains(shard)) {
      check_tensors(shard, mapped[i]);
    } else if (!pinned_.contains(shard) && !staging_.refused.contains(shard)) {
      // A pinned file that is not there, or was refused, is reported as that.
      add(diag::rule::weights_index_names_missing_shard, shard,
          fmt::format("the index places {} tensor{} in \"{}\", which is neither pinned nor there", mapped[i].size(),
                      mapped[i].size() == 1 ? "" : "s", shard),
          "the index belongs to another set of shards: pin the model again, or fetch what is missing");
    }
  }
}

void ShardCheck::check_tensors(const std::string& shard, const std::vector<std::string_view>& mapped) {
  const auto header = headers_.find(shard);
  if (header == headers_.end()) return;  // reported when it was read
  const std::vector<ShardTensor>& held = header->second.tensors;
  std::vector<std::string_view> absent;    // mapped to the shard, not in it
  std::vector<std::string_view> unmapped;  // in the shard, not mapped to it
  auto have = held.begin();
  for (const std::string_view tensor : mapped) {
    for (; have != held.end() && have->name < tensor; ++have) unmapped.push_back(have->name);
    if (have != held.end() && have->name == tensor)
      ++have;
    else
      absent.push_back(tensor);
  }
  for (; have != held.end(); ++have) unmapped.push_back(have->name);
  if (absent.empty() && unmapped.empty()) return;
  std::string text = absent.empty() ? "" : counted(absent, "of the index not in it");
  if (!unmapped.empty()) text += (text.empty() ? "" : "; ") + counted(unmapped, "not placed in it by the index");
  add(diag::rule::weights_tensor_mismatch, shard, fmt::format("\"{}\": {}", shard, text),
      "index and shard are not of one model: fetch both again at the pinned revision");
}

void ShardCheck::check_totals(const Indexed& indexed) {
  const ShardIndex& index = indexed.index;
  if (pin_.index && indexed.path == kIndexName) {
    if (pin_.index->tensor_count != index.weight_map.size())
      add(diag::rule::weights_tensor_mismatch, indexed.path,
          fmt::format("the index lists {} tensors, the pin says {}", index.weight_map.size(),
                      pin_.index->tensor_count));
    if (index.total_size && *index.total_size != pin_.index->total_size)
      add(diag::rule::weights_tensor_mismatch, indexed.path,
          fmt::format("the index gives a total of {} bytes, the pin {}", *index.total_size, pin_.index->total_size));
  }
  // The files are longer than their tensors by the headers, so their sizes must not be added up for this.
  uint64_t sum = 0;
  for (const std::string& shard : indexed.shards) {
    const auto header = headers_.find(shard);
    if (header == headers_.end()) return;  // reported already; a sum without it says nothing
    sum += header->second.data_bytes;
  }
  if (index.total_size && sum != *index.total_size)
    add(diag::rule::weights_index_total, indexed.path,
        fmt::format("the tensors of all shards take {} bytes, the index says {}", sum, *index.total_size));
}

// The pin decides what belongs to the model; a numbering with a gap, or a pinned shard that the index does not know,
// was published like that and is worth a warning.
void ShardCheck::check_names(const Indexed& indexed) {
  std::map<uint64_t, std::set<uint64_t>> numbers_by_total;
  std::unordered_set<std::string_view> named(indexed.shards.begin(), indexed.shards.end());
  for (const std::string& shard : indexed.index.files)
    if (const auto number = shard_number(shard, indexed.stem)) numbers_by_total[number->of].insert(number->number);
  std::string problem;
  if (numbers_by_total.size() > 1)
    problem = fmt::format("some are numbered of {}, some of {}", numbers_by_total.begin()->first,
                          numbers_by_total.rbegin()->first);
  else if (!numbers_by_total.empty())
    problem = numbering_problem(numbers_by_total.begin()->second, numbers_by_total.begin()->first);
  if (!problem.empty())
    add(diag::rule::weights_shard_numbering, indexed.path,
        fmt::format("the shards in \"{}\" are not numbered without a gap: {}", indexed.path, problem),
        "compare with the listing of the revision; the pin decides what belongs to the model");
  for (const std::string_view path : staged_) {
    if (!path.starts_with(indexed.folder) || named.contains(path) || !pinned_.contains(path)) continue;
    const std::string_view name = path.substr(indexed.folder.size());
    if (!shard_number(name, indexed.stem) && name != indexed.stem + std::string(kShardSuffix)) continue;
    add(diag::rule::weights_unindexed_shard, std::string(path),
        fmt::format("\"{}\" is pinned, and \"{}\" does not name it", path, indexed.path),
        "an engine that takes every *.safetensors loads it, one that goes by the index does not");
  }
}

}  // namespace

void check_shards(const Staging& staging, const Pin& pin, diag::Diagnostics& diagnostics) {
  ShardCheck(staging, pin, diagnostics).run();
}

}  // namespace sweep::weights
