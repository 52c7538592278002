#include "tests/integration/small_checkout.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "orchestrator/base/file.h"
#include "tests/support/catch.h"

namespace sweep::test {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

namespace {

std::string read(const fs::path& path) {
  auto text = base::read_file(path);
  INFO(path.string());
  REQUIRE(text.has_value());
  return std::move(*text);
}

void write(const fs::path& path, const std::string& text) {
  REQUIRE(base::make_directories(path.parent_path()).has_value());
  REQUIRE(base::write_file_atomic(path, text).has_value());
}

}  // namespace

SmallCheckout::SmallCheckout(int64_t requests) : folder_(base::TempDir::create().value()) {
  const fs::path source = SWEEPCTL_SOURCE_DIR;
  for (const char* file : {"matrix/embedded.yaml", "matrix/runners.yaml", "matrix/models/embedded-mla-8h.json",
                           "recipes/embedded/mla-8h-dspark-8k256.yaml"})
    write(root() / file, read(source / file));
  fs::create_directory_symlink(source / "kernels", root() / "kernels");
  for (const char* file : {"matrix/embedded.yaml", "recipes/embedded/mla-8h-dspark-8k256.yaml"}) {
    edit(file, "isl: 8192", fmt::format("isl: {}", kSmallIsl));
    edit(file, "osl: 256", fmt::format("osl: {}", kSmallOsl));
  }
  edit("recipes/embedded/mla-8h-dspark-8k256.yaml", "num_prompts_mult: 10",
       fmt::format("num_prompts_mult: {}", requests));
}

void SmallCheckout::edit(const std::string& file, const std::string& from, const std::string& to) const {
  std::string content = read(root() / file);
  const size_t at = content.find(from);
  INFO(file << ": " << from);
  REQUIRE(at != std::string::npos);
  content.replace(at, from.size(), to);
  write(root() / file, content);
}

void SmallCheckout::append(const std::string& file, const std::string& text) const {
  write(root() / file, read(root() / file) + text);
}

exec::CommandSpec SmallCheckout::command(std::vector<std::string> arguments) const {
  std::vector<std::string> argv = {SWEEPCTL_PROGRAMS "/sweepctl"};
  // The same on hosts with GPUs.
  const auto is_embedded = [](const std::string& argument) { return argument.starts_with("embedded-"); };
  if (arguments.front() == "run" && std::any_of(arguments.begin(), arguments.end(), is_embedded))
    argv.insert(argv.end(), {"run", "--device", "cpu"});
  else
    argv.push_back(arguments.front());
  argv.insert(argv.end(), arguments.begin() + 1, arguments.end());
  argv.insert(argv.end(), {"--root", root().string()});
  return {.argv = std::move(argv),
          .environment = {{"SWEEPCTL_CACHE", SWEEPCTL_TEST_CACHE},
                          {"GITHUB_ACTIONS", ""},
                          {"GITHUB_STEP_SUMMARY", ""},
                          {"SWEEPCTL_ROOT", ""}},
          .output = root() / "output.txt"};
}

Ran SmallCheckout::sweepctl(std::vector<std::string> arguments) const {
  fs::remove(root() / "output.txt");
  const auto status = exec::run(command(std::move(arguments)), 5min, {}).value();
  return {.code = status.signal != 0 ? 128 + status.signal : status.code, .output = read(root() / "output.txt")};
}

Ran SmallCheckout::run(std::vector<std::string> more) const {
  std::vector<std::string> arguments = {"run", kEntry, "--out", out().string()};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return sweepctl(std::move(arguments));
}

Ran SmallCheckout::resume() const {
  return run({"--resume"});
}

std::string SmallCheckout::text(const std::string& name) const {
  return read(out() / name);
}

nlohmann::json SmallCheckout::json(const std::string& name) const {
  auto document = nlohmann::json::parse(text(name), nullptr, false);
  INFO(name);
  REQUIRE(document.is_object());
  return document;
}

bool SmallCheckout::has(const std::string& name) const {
  return fs::exists(out() / name);
}

fs::path SmallCheckout::copy_of_model() const {
  const fs::path model = root() / "model";
  const exec::CommandSpec make{.argv = {SWEEPCTL_PROGRAMS "/sweepctl-embedded", "make-model", model.string()}};
  REQUIRE(exec::run(make, 1min, {}).value().ok());
  return model;
}

std::string SmallCheckout::use_model_with_words(const std::string& beginning) const {
  const fs::path model = copy_of_model();
  std::string vocabulary;
  for (char a = 'a'; a <= 'z'; ++a)
    for (char b = 'a'; b <= 'z'; ++b)
      vocabulary +=
          fmt::format("{0}\"{1}{2}{3}\": 1, \"\u0120{1}{2}{3}\": 2", vocabulary.empty() ? "" : ", ", beginning, a, b);
  write(model / "tokenizer.json", R"({"model": {"type": "BPE", "vocab": {)" + vocabulary + "}}}");
  const std::string matrix = read(root() / "matrix/embedded.yaml");
  const Ran pinned = sweepctl({"weights", "pin", "--from-dir", model.string(), "--model", "sweepctl/embedded-mla-8h",
                               "--revision", matrix.substr(matrix.find("revision: \"") + 11, 40), "--output",
                               (root() / "matrix/models/embedded-mla-8h.json").string()});
  INFO(pinned.output);
  REQUIRE(pinned.code == 0);
  return model.string();
}

bool wait_for_file(const fs::path& file, exec::Process& process) {
  while (!fs::exists(file)) {
    if (process.poll()) return fs::exists(file);
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

bool is_running(pid_t pid) {
  const auto status = base::read_file(fmt::format("/proc/{}/stat", pid));
  if (!status) return false;
  const std::string_view state = std::string_view(*status).substr(status->rfind(')') + 2, 1);
  return state != "Z" && state != "X";
}

bool wait_for_end(pid_t pid) {
  for (int i = 0; i < 6000 && is_running(pid); ++i) std::this_thread::sleep_for(10ms);
  return !is_running(pid);
}

}  // namespace sweep::test
