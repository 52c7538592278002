#include "tests/support/tiny_model.h"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "orchestrator/base/check.h"
#include "orchestrator/base/rng.h"

namespace sweep::test {

namespace {

constexpr int kColumns = 8;
constexpr int kBytesPerElement = 2;

void write(const std::filesystem::path& path, const std::string& content) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << content;
  file.close();
  SWEEPCTL_CHECK(file.good());
}

}  // namespace

std::string shard_name(int shard, int shards) {
  return fmt::format("model-{:05}-of-{:05}.safetensors", shard, shards);
}

std::string safetensors(const std::string& header, const std::string& data) {
  std::string file;
  for (size_t i = 0; i < 8; ++i) file += static_cast<char>((header.size() >> (8 * i)) & 0xff);
  return file + header + data;
}

void write_tiny_model(const std::filesystem::path& dir, const TinyModel& model) {
  base::SplitMix64 random(model.seed);
  nlohmann::json map = nlohmann::json::object();
  const int tensor_bytes = model.rows * kColumns * kBytesPerElement;
  for (int shard = 1; shard <= model.shards; ++shard) {
    nlohmann::json header = {{"__metadata__", {{"format", "pt"}}}};
    std::string data;
    for (int t = 0; t < model.tensors_per_shard; ++t) {
      const std::string name = fmt::format("layers.{}.w{}", shard, t);
      header[name] = {{"dtype", "BF16"},
                      {"shape", {model.rows, kColumns}},
                      {"data_offsets", {t * tensor_bytes, (t + 1) * tensor_bytes}}};
      map[name] = shard_name(shard, model.shards);
      for (int i = 0; i < tensor_bytes; ++i) data += static_cast<char>(random.below(256));
    }
    write(dir / shard_name(shard, model.shards), safetensors(header.dump(), data));
  }
  const nlohmann::json index = {{"metadata", {{"total_size", model.shards * model.tensors_per_shard * tensor_bytes}}},
                                {"weight_map", map}};
  write(dir / "model.safetensors.index.json", index.dump(2));
  write(dir / "config.json", R"({"architectures":["Tiny"]})");
  write(dir / "tokenizer.json", R"({"version":"1.0"})");
}

}  // namespace sweep::test
