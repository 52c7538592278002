#include "orchestrator/engine/embedded/make_model.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <nlohmann/json.hpp>
#include <numeric>
#include <system_error>
#include <thread>
#include <utility>

#include "orchestrator/base/file.h"
#include "orchestrator/diag/rules/embedded.h"
#include "orchestrator/engine/embedded/model_weights_recipe.h"
#include "orchestrator/engine/embedded/tensors.h"
#include "orchestrator/engine/embedded/tokenizer.h"

namespace sweep::engine::embedded {

namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

std::string generation_config_text(const ModelConfig& config) {
  ordered_json json;
  json["bos_token_id"] = config.bos_token_id;
  json["eos_token_id"] = config.eos_token_id;
  json["pad_token_id"] = config.pad_token_id;
  json["do_sample"] = true;
  json["temperature"] = 1.0;
  return json.dump(2) + "\n";
}

using Specs = std::vector<TensorSpec>;

int64_t bytes_of(const Specs& specs) {
  return std::accumulate(specs.begin(), specs.end(), int64_t{0},
                         [](int64_t sum, const TensorSpec& spec) { return sum + spec.bytes(); });
}

int64_t most_shard_bytes(const MakeModelOptions& options, int64_t total) {
  constexpr int64_t kSmall = 3'000'000;
  constexpr int64_t kLarge = 256'000'000;
  constexpr int64_t kLargeModel = 100'000'000;
  if (options.shard_bytes != 0) return options.shard_bytes;
  return total < kLargeModel ? kSmall : kLarge;
}

std::vector<Specs> shards_of(const MakeModelOptions& options) {
  const Specs specs = model_tensors(options.config);
  const int64_t most = most_shard_bytes(options, bytes_of(specs));
  std::vector<Specs> shards(1);
  int64_t bytes = 0;
  for (const auto& spec : specs) {
    if (bytes > 0 && bytes + spec.bytes() > most) {
      shards.emplace_back();
      bytes = 0;
    }
    bytes += spec.bytes();
    shards.back().push_back(spec);
  }
  return shards;
}

// A tensor's numbers come from its own seed: who makes it when does not matter.
std::string shard_content(const Specs& specs, const MakeModelOptions& options) {
  std::vector<Tensor> tensors(specs.size());
  std::atomic<size_t> next{0};
  {
    std::vector<std::jthread> makers;
    const size_t threads = std::clamp<size_t>(std::thread::hardware_concurrency(), 1, specs.size());
    for (size_t i = 0; i < threads; ++i) {
      makers.emplace_back([&] {
        for (size_t at = next++; at < specs.size(); at = next++) {
          tensors[at] = make_tensor(specs[at], options.config, options.seed);
        }
      });
    }
  }
  return safetensors_bytes(tensors);
}

void add_shards(const MakeModelOptions& options, std::vector<ModelFile>& files) {
  const auto shards = shards_of(options);
  int64_t total_size = 0;
  ordered_json weight_map;
  for (size_t i = 0; i < shards.size(); ++i) {
    const std::string name = fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
    total_size += bytes_of(shards[i]);
    for (const auto& spec : shards[i]) weight_map[spec.name] = name;
    files.push_back({name, [specs = shards[i], options] { return shard_content(specs, options); }});
  }
  ordered_json index;
  index["metadata"] = {{"total_size", total_size}};
  index["weight_map"] = std::move(weight_map);
  files.push_back({"model.safetensors.index.json", [text = index.dump(2) + "\n"] { return text; }});
}

diag::Result<diag::Done> write_problem(std::string text) {
  return diag::fail(diag::rule::embedded_model_write, std::move(text));
}

// "DIR" and "DIR/" name the same folder.
fs::path without_trailing_slash(const fs::path& folder) {
  return folder.has_filename() ? folder : folder.parent_path();
}

std::string making_prefix(const fs::path& folder) {
  return fmt::format(".{}.making-", folder.filename().string());
}

// Removes what killed makers of the same folder left behind. A living process's folder is not touched.
void remove_abandoned(const fs::path& folder) {
  const std::string prefix = making_prefix(folder);
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder.parent_path(), error)) {
    const std::string name = entry.path().filename().string();
    if (name.compare(0, prefix.size(), prefix) != 0) continue;
    pid_t pid = 0;
    const char* const end = name.data() + name.size();
    const auto parsed = std::from_chars(name.data() + prefix.size(), end, pid);
    if (parsed.ec != std::errc() || parsed.ptr != end || pid <= 0) continue;
    if (::kill(pid, 0) != 0 && errno == ESRCH) fs::remove_all(entry.path(), error);
  }
}

enum class Existing { kAbsent, kSame, kOther };

Existing inspect(const fs::path& folder, const std::vector<ModelFile>& files) {
  std::error_code error;
  const auto status = fs::symlink_status(folder, error);
  if (status.type() == fs::file_type::not_found) return Existing::kAbsent;
  if (!fs::is_directory(folder, error)) return Existing::kOther;
  size_t entries = 0;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) ++entries;
  if (error) return Existing::kOther;
  if (entries == 0) return Existing::kAbsent;  // rename() replaces an empty folder
  if (entries != files.size()) return Existing::kOther;
  for (const auto& file : files) {
    const std::string wanted = file.content();
    const auto content = base::read_file(folder / file.name, wanted.size());
    if (!content || *content != wanted) return Existing::kOther;
  }
  return Existing::kSame;
}

}  // namespace

std::vector<ModelFile> model_files(const MakeModelOptions& options) {
  std::vector<ModelFile> files;
  const auto add = [&](const char* name, std::string (*text)(const ModelConfig&)) {
    files.push_back({name, [text, config = options.config] { return text(config); }});
  };
  add("config.json", config_text);
  add_shards(options, files);
  add("tokenizer.json", tokenizer_text);
  add("tokenizer_config.json", tokenizer_config_text);
  add("generation_config.json", generation_config_text);
  return files;
}

diag::Result<diag::Done> make_model(const fs::path& folder, const MakeModelOptions& options) {
  if (auto problem = config_problem(options.config); !problem.empty()) {
    return diag::fail(diag::rule::embedded_model_invalid, std::move(problem));
  }
  std::error_code error;
  const fs::path target = without_trailing_slash(fs::absolute(folder, error).lexically_normal());
  const auto files = model_files(options);
  switch (inspect(target, files)) {
    case Existing::kSame:
      return diag::Done{};
    case Existing::kAbsent:
      break;
    case Existing::kOther:
      return diag::fail(diag::rule::embedded_model_exists,
                        fmt::format("\"{}\" already holds something other than this model", folder.string()),
                        "remove it or name another folder");
  }
  if (auto made = base::make_directories(target.parent_path()); !made) return write_problem(made.error().text());
  remove_abandoned(target);
  const fs::path temporary = target.parent_path() / fmt::format("{}{}", making_prefix(target), ::getpid());
  fs::remove_all(temporary, error);
  if (auto made = base::make_directories(temporary); !made) return write_problem(made.error().text());
  for (const auto& file : files) {
    if (auto written = base::write_file_atomic(temporary / file.name, file.content()); !written) {
      fs::remove_all(temporary, error);
      return write_problem(written.error().text());
    }
  }
  fs::rename(temporary, target, error);
  if (error) {
    const std::string reason = error.message();
    fs::remove_all(temporary, error);
    if (inspect(target, files) == Existing::kSame) return diag::Done{};  // another process was faster
    return write_problem(fmt::format("cannot rename the finished model to \"{}\": {}", folder.string(), reason));
  }
  return diag::Done{};
}

}  // namespace sweep::engine::embedded
