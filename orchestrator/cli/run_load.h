// The options of `run` about the server and the load: reading them, and checking them with one another.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/pipeline/run.h"

namespace CLI {  // NOLINT(readability-identifier-naming): the library names it
class App;
}

namespace sweep::cli {

struct LoadArguments {
  std::string engine_url;
  std::string api_key_variable;
  std::string ca_file;
  std::string api = "completions";
  std::optional<double> request_rate;
  std::string arrivals;
};

void add_load_options(CLI::App& command, const std::shared_ptr<LoadArguments>& arguments);

// Puts them into the options, the key out of the environment included. Fails with run/server-options or
// http/bad-key. Warnings go to `diagnostics`.
diag::Result<diag::Done> read_load_options(const LoadArguments& arguments, pipeline::RunOptions& options,
                                           diag::Diagnostics& diagnostics);

}  // namespace sweep::cli
