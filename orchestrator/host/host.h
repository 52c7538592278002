// What this host has: processor, memory, GPUs and programs. Nothing is assumed; what cannot be read is absent.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sweep::host {

struct Gpu {
  int64_t index = 0;
  std::string name;  // "NVIDIA H200"; empty if the driver does not tell
};

// The name under which this host is known to itself; empty if it has none.
std::string hostname();

struct Host {
  std::string hostname;
  std::string kernel;  // "Linux 6.1.0"
  std::string system;  // PRETTY_NAME of os-release
  std::string cpu;
  int64_t cores = 0;         // this process may use
  int64_t memory_bytes = 0;  // of the machine
  std::vector<Gpu> gpus;     // NVIDIA GPUs that the driver shows
};

// `root` is "/" outside tests.
Host inspect_host(const std::filesystem::path& root = "/");

// The path of a program in PATH; nothing if it is not there.
std::optional<std::filesystem::path> find_program(std::string_view name);

}  // namespace sweep::host
