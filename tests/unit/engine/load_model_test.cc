#include <filesystem>
#include <functional>

#include "orchestrator/base/temp_dir.h"
#include "orchestrator/diag/rules/embedded.h"
#include "orchestrator/engine/embedded/checkpoint.h"
#include "orchestrator/engine/embedded/make_model.h"
#include "tests/support/catch.h"
#include "tests/unit/engine/small_model.h"

using namespace sweep;
using namespace sweep::engine::embedded;
namespace fs = std::filesystem;

namespace {

// Loads a small model after `damage` was done to its folder; the message of the refusal, empty if it loads.
std::string problem_after(const std::function<void(const fs::path&)>& damage) {
  auto temp = base::TempDir::create().value();
  MakeModelOptions options;
  options.config = small_config();
  options.shard_bytes = 40'000;
  const fs::path folder = temp.path() / "model";
  REQUIRE(make_model(folder, options).has_value());
  damage(folder);
  const auto loaded = load_checkpoint(folder);
  if (loaded.has_value()) return "";
  CHECK(loaded.error().rule == diag::rule::embedded_model_invalid);
  return loaded.error().message;
}

void rewrite(const fs::path& path, const std::function<void(std::string&)>& change) {
  auto content = base::read_file(path).value();
  change(content);
  REQUIRE(base::write_file_atomic(path, content).has_value());
}

fs::path first_shard(const fs::path& folder) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (contains(entry.path().filename().string(), "model-00001-of-")) return entry.path();
  }
  return {};
}

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

}  // namespace

TEST_CASE("load model: what make_model writes can be loaded") {
  CHECK(problem_after([](const fs::path&) {}).empty());
}

TEST_CASE("load model: missing and damaged files are refused with the reason") {
  CHECK(contains(problem_after([](const fs::path& f) { fs::remove_all(f); }), "config.json"));
  for (const char* name : {"config.json", "tokenizer.json", "model.safetensors.index.json"}) {
    INFO(name);
    CHECK(contains(problem_after([&](const fs::path& f) { fs::remove(f / name); }), name));
    CHECK(!problem_after([&](const fs::path& f) {
             rewrite(f / name, [](std::string& text) { text.resize(text.size() / 2); });
           }).empty());
  }
  CHECK(contains(problem_after([](const fs::path& f) { fs::remove(first_shard(f)); }), "model-00001"));
  CHECK(!problem_after([](const fs::path& f) {
           rewrite(first_shard(f), [](std::string& text) { text.pop_back(); });
         }).empty());
}

TEST_CASE("load model: tensors that do not fit the config are refused by name") {
  CHECK(contains(problem_after([](const fs::path& f) {
                   rewrite(f / "config.json", [](std::string& text) {
                     replace_all(text, "\"intermediate_size\": 48", "\"intermediate_size\": 52");
                   });
                 }),
                 "mlp.gate_proj.weight"));
  CHECK(contains(problem_after([](const fs::path& f) {
                   rewrite(first_shard(f),
                           [](std::string& text) { replace_all(text, "embed_tokens", "embed_tokenz"); });
                 }),
                 "embed_tokens"));
}

TEST_CASE("load model: an index cannot point outside its folder") {
  CHECK(contains(problem_after([](const fs::path& f) {
                   rewrite(f / "model.safetensors.index.json",
                           [](std::string& text) { replace_all(text, "\"model-00001", "\"../model-00001"); });
                 }),
                 "not the name of a file"));
}
