// sweepctl-embedded as a child process, with a small model of its own.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

#include "orchestrator/base/temp_dir.h"

namespace sweep::engine::embedded {

class ServerProcess {
 public:
  // Starts `serve` with these further arguments and waits until the port file is there; port() is 0 if the process ends
  // before that.
  explicit ServerProcess(const std::vector<std::string>& arguments = {},
                         const std::string& kernels = SWEEPCTL_TEST_KERNELS);
  ~ServerProcess();
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  int port() const { return port_; }
  pid_t pid() const { return pid_; }
  void signal(int number) const;
  // The exit status as waitpid() gives it.
  int wait();
  std::string log() const;
  std::filesystem::path folder() const { return temp_.path(); }

 private:
  base::TempDir temp_;
  pid_t pid_ = -1;
  int port_ = 0;
};

// A folder with the small model, made once.
const std::filesystem::path& small_model_folder();

// The command line of `serve` for this model.
std::vector<std::string> serve_command(const std::filesystem::path& port_file,
                                       const std::vector<std::string>& further_arguments,
                                       const std::string& kernels = SWEEPCTL_TEST_KERNELS);

// fork and exec with both output streams going to `log`.
pid_t start_process(const std::vector<std::string>& command, const std::filesystem::path& log);

}  // namespace sweep::engine::embedded
