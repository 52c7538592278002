#include "orchestrator/engine/embedded/checkpoint.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "orchestrator/base/check.h"
#include "orchestrator/base/file.h"
#include "orchestrator/diag/rules/embedded.h"
#include "orchestrator/engine/embedded/tensors.h"

namespace sweep::engine::embedded {

namespace {

using Tensors = std::map<std::string, Tensor>;
constexpr uint64_t kMostFileBytes = uint64_t{8} << 30;

base::Unexpected<diag::Diagnostic> refuse(const std::string& file, const std::string& problem) {
  return diag::fail(diag::make_at(diag::rule::embedded_model_invalid, {.file = file}, problem));
}

diag::Result<std::string> read(const std::filesystem::path& path) {
  auto content = base::read_file(path, kMostFileBytes);
  if (!content) return refuse(path.string(), content.error().text());
  return std::move(content).value();
}

// The shards that the index names, each once.
diag::Result<std::set<std::string>> shard_names(const std::filesystem::path& index) {
  auto text = read(index);
  if (!text) return diag::fail(text.error());
  const auto json = nlohmann::json::parse(*text, nullptr, false);
  if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object()) {
    return refuse(index.string(), "the file has no \"weight_map\"");
  }
  std::set<std::string> names;
  for (const auto& [tensor, shard] : json["weight_map"].items()) {
    if (!shard.is_string()) return refuse(index.string(), fmt::format("tensor \"{}\" has no shard name", tensor));
    const auto name = shard.get<std::string>();
    if (name.empty() || name.find('/') != std::string::npos) {
      return refuse(index.string(), fmt::format("\"{}\" is not the name of a file in this folder", name));
    }
    names.insert(name);
  }
  return names;
}

diag::Result<Tensors> read_shards(const std::filesystem::path& folder) {
  auto names = shard_names(folder / "model.safetensors.index.json");
  if (!names) return diag::fail(names.error());
  Tensors tensors;
  for (const auto& name : *names) {
    const auto path = folder / name;
    auto content = read(path);
    if (!content) return diag::fail(content.error());
    auto shard = parse_safetensors(*content, path.string());
    if (!shard) return diag::fail(shard.error());
    for (auto& [key, tensor] : *shard) {
      if (!tensors.emplace(key, std::move(tensor)).second) {
        return refuse(path.string(), fmt::format("tensor \"{}\" is in two shards", key));
      }
    }
  }
  return tensors;
}

// Missing, additional and misshapen tensors.
std::string tensors_problem(const Tensors& tensors, const ModelConfig& config) {
  const auto wanted = model_tensors(config);
  for (const auto& spec : wanted) {
    const auto found = tensors.find(spec.name);
    if (found == tensors.end()) return fmt::format("tensor \"{}\" is missing", spec.name);
    if (found->second.spec.dtype != spec.dtype || found->second.spec.shape != spec.shape) {
      return fmt::format("tensor \"{}\" has another dtype or shape than the config implies", spec.name);
    }
  }
  if (tensors.size() != wanted.size()) {
    return fmt::format("the shards hold {} tensors, the config implies {}", tensors.size(), wanted.size());
  }
  return {};
}

}  // namespace

const Tensor& Checkpoint::tensor(const std::string& name) const {
  const auto found = tensors.find(name);
  SWEEPCTL_CHECK(found != tensors.end());
  return found->second;
}

diag::Result<Checkpoint> load_checkpoint(const std::filesystem::path& folder) {
  auto config_content = read(folder / "config.json");
  if (!config_content) return diag::fail(config_content.error());
  auto config = parse_config(*config_content, (folder / "config.json").string());
  if (!config) return diag::fail(config.error());
  auto tensors = read_shards(folder);
  if (!tensors) return diag::fail(tensors.error());
  if (auto problem = tensors_problem(*tensors, *config); !problem.empty()) return refuse(folder.string(), problem);
  auto tokenizer_content = read(folder / "tokenizer.json");
  if (!tokenizer_content) return diag::fail(tokenizer_content.error());
  auto tokenizer = Tokenizer::parse(*tokenizer_content, (folder / "tokenizer.json").string(), config->vocab_size);
  if (!tokenizer) return diag::fail(tokenizer.error());
  return Checkpoint{.config = std::move(config).value(),
                    .tokenizer = std::move(tokenizer).value(),
                    .tensors = std::move(tensors).value()};
}

}  // namespace sweep::engine::embedded
