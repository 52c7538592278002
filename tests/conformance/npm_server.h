// Servers that were not written here: installed from npm at a pinned version, started on a port of the loopback
// interface.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "orchestrator/base/temp_dir.h"
#include "orchestrator/exec/process.h"

namespace sweep::test {

struct NpmPackage {
  std::string name;
  std::string version;
  std::string integrity;  // of the package's archive, as npm records it
  std::string program;    // inside the package's folder
};

struct Installed {
  std::filesystem::path program;  // empty if the package is not there
  std::string why_not;
};

// Once per build folder, into $BUILD/conformance/; install scripts are not run. Without npm, node or a network, or if
// the archive is another than the pinned one, it says why there is none.
Installed install(const NpmPackage& package);

// The server's process with a folder of its own, which is also its working directory. Ends with the object.
class NpmServer {
 public:
  struct Options {
    std::vector<std::string> arguments = {};  // "{port}" stands for the port
    std::map<std::string, std::string> environment = {};
    std::map<std::string, std::string> files = {};  // written into the folder first
  };

  // Waits until GET /health answers with 200. Fails the test if that does not happen.
  NpmServer(const std::filesystem::path& program, const Options& options);

  std::string url() const;
  std::string log() const;

 private:
  base::TempDir folder_;
  int port_ = 0;
  std::optional<exec::Process> process_;
};

}  // namespace sweep::test
