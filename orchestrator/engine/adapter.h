// From a job to the exact command that serves it, per framework. Acceptance control is rendered by the adapters,
// nowhere else.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/exec/process.h"
#include "orchestrator/plan/job.h"

namespace sweep::engine {

struct LaunchRequest {
  const plan::Job& job;
  std::filesystem::path model_folder;    // verified weights
  std::filesystem::path kernel_library;  // gated kernels
  std::filesystem::path program_folder;  // where sweepctl's own programs are
  std::filesystem::path run_folder;      // for the engine's log and port file
  uint64_t seed = 0;
};

// A file that the command reads; written before it is started.
struct LaunchFile {
  std::filesystem::path path;
  std::string text;
};

// What a container needs beside the command that runs in it.
struct Container {
  std::string runtime;                               // "docker", "podman", "enroot"
  std::string name;                                  // unique to the run folder
  std::vector<exec::CommandSpec> prepare;            // in this order, unless the digest can be told without
  std::vector<exec::CommandSpec> remove;             // of what is left of a container of this name; may fail
  std::optional<exec::CommandSpec> stop;             // asks the engine inside to end
  std::optional<exec::CommandSpec> pid_of_first;     // prints the process that all others inside descend from
  std::optional<exec::CommandSpec> digest_of_image;  // prints it
};

struct Launch {
  exec::CommandSpec command;
  std::string served_model;                        // as `/v1/models` will list it
  std::string base_url;                            // empty: the port is in `port_file`
  std::optional<std::filesystem::path> port_file;  // written by the engine when it listens
  std::vector<LaunchFile> files;
  std::optional<Container> container;
};

// Where a server tells what it did, below its base URL. Empty: nowhere.
struct Endpoints {
  std::string_view counters;    // in Prometheus' text format
  std::string_view statistics;  // a JSON document, see json_stats.h
  std::string_view version;     // a JSON object with "version"
  std::string_view info;        // a JSON object of what it was started with
  bool drained = false;         // each reading of `statistics` takes what it gives
};

struct Framework {
  std::string_view name;  // also in counter_names()
  Endpoints endpoints;
  bool uses_bundled_kernels;  // its attention goes through the library that was gated; it compiles nothing itself
  bool draws_per_step;        // forced acceptance is drawn once per step for the whole batch, not per request
  bool takes_token_ids;       // prompts may be lists of token ids; otherwise they are text
  diag::Result<Launch> (*render)(const LaunchRequest& request);
};

std::span<const Framework> frameworks();

// By its name or the peer's ("trt"). Null if there is no adapter.
const Framework* find_framework(std::string_view name);

}  // namespace sweep::engine
