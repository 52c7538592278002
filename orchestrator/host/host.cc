#include "orchestrator/host/host.h"

#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <system_error>

#include "orchestrator/base/file.h"

namespace sweep::host {

namespace {

namespace fs = std::filesystem;

// The value of the first line "KEY<separator>VALUE"; quotes around the value are dropped.
std::string value_of(std::string_view text, std::string_view key, char separator) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const size_t at = line.find(separator);
    if (at == std::string_view::npos) continue;
    std::string_view name = line.substr(0, at);
    while (name.ends_with(' ') || name.ends_with('\t')) name.remove_suffix(1);
    if (name != key) continue;
    std::string_view value = line.substr(at + 1);
    while (value.starts_with(' ') || value.starts_with('\t')) value.remove_prefix(1);
    if (value.size() >= 2 && value.starts_with('"') && value.ends_with('"')) value = value.substr(1, value.size() - 2);
    return std::string(value);
  }
  return {};
}

std::string text_of(const fs::path& path) {
  auto text = base::read_file(path);
  return text ? std::move(*text) : std::string();
}

std::vector<Gpu> nvidia_gpus(const fs::path& root) {
  std::vector<fs::path> folders;
  std::error_code error;
  for (fs::directory_iterator item(root / "proc/driver/nvidia/gpus", error), end; !error && item != end;
       item.increment(error))
    folders.push_back(item->path());
  std::sort(folders.begin(), folders.end());  // by PCI address
  std::vector<Gpu> gpus;
  for (const fs::path& folder : folders)
    gpus.push_back(
        {.index = static_cast<int64_t>(gpus.size()), .name = value_of(text_of(folder / "information"), "Model", ':')});
  return gpus;
}

}  // namespace

std::string hostname() {
  utsname names{};
  return ::uname(&names) == 0 ? names.nodename : "";
}

Host inspect_host(const fs::path& root) {
  Host host;
  host.hostname = hostname();
  utsname names{};
  if (::uname(&names) == 0) {
    host.kernel = std::string(names.sysname) + " " + names.release;
  }
  host.system = value_of(text_of(root / "etc/os-release"), "PRETTY_NAME", '=');
  host.cpu = value_of(text_of(root / "proc/cpuinfo"), "model name", ':');
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) == 0) host.cores = CPU_COUNT(&set);
  host.memory_bytes = static_cast<int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGE_SIZE);
  host.gpus = nvidia_gpus(root);
  return host;
}

std::optional<fs::path> find_program(std::string_view name) {
  const char* path = std::getenv("PATH");
  std::string_view rest = path != nullptr ? path : "";
  while (!rest.empty()) {
    const std::string_view folder = rest.substr(0, rest.find(':'));
    rest.remove_prefix(std::min(rest.size(), folder.size() + 1));
    if (folder.empty()) continue;
    fs::path candidate = fs::path(folder) / name;
    std::error_code error;
    if (fs::is_regular_file(candidate, error) && ::access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return std::nullopt;
}

}  // namespace sweep::host
