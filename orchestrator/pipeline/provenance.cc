#include "orchestrator/pipeline/provenance.h"

#include <nlohmann/json.hpp>

#include "orchestrator/base/temp_dir.h"
#include "orchestrator/exec/process.h"
#include "orchestrator/host/host.h"

namespace sweep::pipeline {

namespace {

// What git prints, without the last line break; nothing if it fails.
std::optional<std::string> git(const std::filesystem::path& root, std::vector<std::string> arguments,
                               const std::stop_token& stop) {
  constexpr std::chrono::seconds kLimit{30};
  const auto folder = base::TempDir::create();
  if (!folder) return std::nullopt;
  exec::CommandSpec command{.argv = {"git", "-c", "safe.directory=" + root.string(), "-C", root.string()},
                            .output = folder->path() / "out"};
  command.argv.insert(command.argv.end(), arguments.begin(), arguments.end());
  const auto status = exec::run(command, kLimit, stop);
  if (!status || !status->ok()) return std::nullopt;
  auto text = base::read_file(command.output);
  if (!text) return std::nullopt;
  while (text->ends_with('\n')) text->pop_back();
  return std::move(*text);
}

}  // namespace

nlohmann::json describe_host() {
  const host::Host here = host::inspect_host();
  nlohmann::json gpus = nlohmann::json::array();
  for (const host::Gpu& gpu : here.gpus) gpus.push_back(gpu.name);
  return {{"hostname", here.hostname}, {"system", here.system}, {"kernel", here.kernel},
          {"cpu", here.cpu},           {"cores", here.cores},   {"memory_bytes", here.memory_bytes},
          {"gpus", std::move(gpus)}};
}

nlohmann::json describe_checkout(const std::filesystem::path& root, const std::stop_token& stop) {
  const auto commit = git(root, {"rev-parse", "HEAD"}, stop);
  if (!commit || commit->size() != 40) return nullptr;
  const auto changes = git(root, {"status", "--porcelain", "--untracked-files=no"}, stop);
  return {{"commit", *commit}, {"clean", changes && changes->empty()}};
}

}  // namespace sweep::pipeline
