#include "orchestrator/engine/embedded/make_model.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <map>
#include <nlohmann/json.hpp>

#include "orchestrator/base/temp_dir.h"
#include "orchestrator/diag/rules/embedded.h"
#include "orchestrator/digest/sha256.h"
#include "orchestrator/engine/embedded/safetensors.h"
#include "orchestrator/engine/embedded/tensors.h"
#include "tests/support/catch.h"

using namespace sweep;
using namespace sweep::engine::embedded;
namespace fs = std::filesystem;

namespace {

std::map<std::string, std::string> folder_content(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    files[entry.path().filename().string()] = base::read_file(entry.path()).value();
  }
  return files;
}

}  // namespace

TEST_CASE("make-model: the bytes of every file are the same on every machine and with every compiler") {
  const std::map<std::string, std::string> expected = {
      {"config.json", "027ec41d3a8c0b22dbf4efeaa5bfb5687e0a8307460725b0d80a1f7174b541c6"},
      {"generation_config.json", "b9ced5df926dfad4214edc25905b7bfb43a9c0c8abd90ff673b4f5849f7e835d"},
      {"model-00001-of-00003.safetensors", "cf2b5d9cac9a399e7c73eb446048d35ec972c6ea61a64d1ccd3d95665e3eab14"},
      {"model-00002-of-00003.safetensors", "eb303b678b2b54da00d0d7865ad758be77390fbc2734e784eefcfdceee57d64c"},
      {"model-00003-of-00003.safetensors", "635f340d2448e118396da59f0fc1d1dcf4526bab22abaaaa144ebd9f98d72e95"},
      {"model.safetensors.index.json", "3908ec34289b0886d46f2fdcfb663e9442a282611d0d953b9d9a54b24c501307"},
      {"tokenizer.json", "63f7f4f7d9196d9ddf07da1851c810e8018054957d3561bc322fa45ed7295a21"},
      {"tokenizer_config.json", "c92b695610e49c9645470e946db050c4439485c136f1d92fba6bcb1ebf709856"},
  };
  std::map<std::string, std::string> found;
  for (const auto& file : model_files({})) found[file.name] = digest::sha256_hex(file.content());
  CHECK(found == expected);
}

TEST_CASE("make-model: another seed gives other weights and the same config") {
  MakeModelOptions other;
  other.seed = 2;
  const auto first = model_files({});
  const auto second = model_files(other);
  REQUIRE(first.size() == second.size());
  for (size_t i = 0; i < first.size(); ++i) {
    INFO(first[i].name);
    CHECK(first[i].name == second[i].name);
    CHECK((first[i].content() == second[i].content()) != contains(first[i].name, "-of-"));
  }
}

TEST_CASE("make-model: index and shards agree on every tensor and on the total size") {
  const MakeModelOptions options;
  std::map<std::string, std::string> files;
  for (const auto& file : model_files(options)) files[file.name] = file.content();
  const auto index = nlohmann::json::parse(files.at("model.safetensors.index.json"));
  int64_t total = 0;
  std::map<std::string, std::string> homes;
  for (const auto& [name, content] : files) {
    if (!contains(name, ".safetensors") || contains(name, "index")) continue;
    const auto tensors = parse_safetensors(content, name);
    REQUIRE(tensors.has_value());
    for (const auto& [tensor, value] : *tensors) {
      homes[tensor] = name;
      total += static_cast<int64_t>(value.bytes.size());
    }
  }
  CHECK(index["weight_map"].get<std::map<std::string, std::string>>() == homes);
  CHECK(index["metadata"]["total_size"] == total);
  CHECK(homes.size() == model_tensors(options.config).size());
}

TEST_CASE("make-model: a folder that holds the model is left alone, another is refused and stays as it is") {
  auto temp = base::TempDir::create().value();
  const fs::path folder = temp.path() / "model";
  REQUIRE(make_model(folder).has_value());
  const auto before = fs::last_write_time(folder / "config.json");
  CHECK(make_model(folder).has_value());
  CHECK(make_model(folder / "").has_value());  // with a trailing slash
  CHECK(fs::last_write_time(folder / "config.json") == before);

  REQUIRE(base::write_file_atomic(folder / "notes.txt", "mine").has_value());
  const auto content = folder_content(folder);
  const auto refused = make_model(folder);
  REQUIRE(!refused.has_value());
  CHECK(refused.error().rule == diag::rule::embedded_model_exists);
  CHECK(folder_content(folder) == content);

  fs::remove(folder / "notes.txt");
  REQUIRE(base::write_file_atomic(folder / "config.json", "{}").has_value());
  CHECK(!make_model(folder).has_value());
}

TEST_CASE("make-model: a file in the way and an unwritable place are errors that name the path") {
  auto temp = base::TempDir::create().value();
  REQUIRE(base::write_file_atomic(temp.path() / "file", "").has_value());
  CHECK(make_model(temp.path() / "file").error().rule == diag::rule::embedded_model_exists);
  const auto below_a_file = make_model(temp.path() / "file" / "model");
  REQUIRE(!below_a_file.has_value());
  CHECK(below_a_file.error().rule == diag::rule::embedded_model_write);
  CHECK(contains(below_a_file.error().message, "file"));
}

TEST_CASE("make-model: dimensions that cannot work are refused before anything is written") {
  auto temp = base::TempDir::create().value();
  MakeModelOptions options;
  options.config.o_groups = 3;
  const auto refused = make_model(temp.path() / "model", options);
  REQUIRE(!refused.has_value());
  CHECK(refused.error().rule == diag::rule::embedded_model_invalid);
  CHECK(!fs::exists(temp.path() / "model"));
}

TEST_CASE("make-model: killed at any moment it leaves nothing or everything, and the next run cleans up") {
  auto temp = base::TempDir::create().value();
  const fs::path folder = temp.path() / "model";
  for (int delay_us = 0; delay_us < 120'000; delay_us += 10'000) {
    fs::remove_all(folder);
    const pid_t child = ::fork();
    if (child == 0) {
      static_cast<void>(make_model(folder));
      ::_exit(0);
    }
    REQUIRE(child > 0);
    ::usleep(static_cast<useconds_t>(delay_us));  // varies the moment of the kill; every moment must be fine
    ::kill(child, SIGKILL);
    REQUIRE(::waitpid(child, nullptr, 0) == child);
    if (fs::exists(folder)) {
      CHECK(fs::exists(folder / "config.json"));
      CHECK(folder_content(folder).size() == model_files({}).size());
    }
  }
  REQUIRE(make_model(folder).has_value());
  CHECK(folder_content(folder).size() == model_files({}).size());
  fs::remove_all(folder);
  REQUIRE(make_model(folder).has_value());
  size_t entries = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator(temp.path())) ++entries;
  CHECK(entries == 1);
}
