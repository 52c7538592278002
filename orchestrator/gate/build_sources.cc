#include "orchestrator/gate/build_sources.h"

#include <fmt/format.h>

#include <map>
#include <system_error>

#include "orchestrator/diag/rules/file.h"
#include "orchestrator/diag/rules/kernels.h"
#include "orchestrator/digest/sha256.h"

namespace sweep::gate {

namespace {

namespace fs = std::filesystem;
namespace rule = diag::rule;

bool is_part_of_extension(Arch arch, const fs::path& relative) {
  if (relative.extension() == ".md") return false;
  const std::string top = relative.begin()->string();
  if (top == "gate" || top == "oracle" || top == "device") return false;
  if (top == "cpu") return !is_cuda(arch);
  if (top == "cuda" || top == "cmake") return is_cuda(arch);
  // The kernel that reads memory and does nothing else is built with the CUDA libraries.
  if (top == "bench") return is_cuda(arch) && relative.stem() == "plain_read";
  return true;
}

}  // namespace

diag::Result<std::string> source_digest(Arch arch, const fs::path& sources) {
  std::error_code error;
  std::map<std::string, std::string> digests;  // sorted by path
  for (auto item = fs::recursive_directory_iterator(sources, error);
       !error && item != fs::recursive_directory_iterator(); item.increment(error)) {
    if (!item->is_regular_file(error)) continue;
    const fs::path relative = fs::relative(item->path(), sources, error);
    if (error || !is_part_of_extension(arch, relative)) continue;
    const auto digest = digest::sha256_file(item->path());
    if (!digest) return diag::fail(rule::file_unreadable, digest.error().text());
    digests.emplace(relative.generic_string(), *digest);
  }
  if (error || !digests.contains("CMakeLists.txt"))
    return diag::fail(rule::kernels_sources_missing, fmt::format("no kernel sources in \"{}\"", sources.string()),
                      "run inside a complete checkout or name one with --root");
  digest::Sha256 hash;
  for (const auto& [path, digest] : digests) hash.update(fmt::format("{} {}\n", path, digest));
  return digest::hex(hash.finish());
}

}  // namespace sweep::gate
