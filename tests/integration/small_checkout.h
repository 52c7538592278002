// A checkout with the real kernels, model and embedded entry, but short requests, and the built sweepctl to run in it.
#pragma once

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "orchestrator/base/temp_dir.h"
#include "orchestrator/exec/process.h"

namespace sweep::test {

inline constexpr int64_t kSmallIsl = 256;
inline constexpr int64_t kSmallOsl = 32;
inline constexpr int64_t kSmallRequests = 4;
inline constexpr const char* kEntry = "embedded-dspark-8k256";

struct Ran {
  int code = 0;  // 128 + signal if a signal ended it
  std::string output;
};

class SmallCheckout {
 public:
  // `requests`: measured ones of the entry.
  explicit SmallCheckout(int64_t requests = kSmallRequests);

  const std::filesystem::path& root() const { return folder_.path(); }
  std::filesystem::path out() const { return root() / "out"; }

  // Replaces `from`, which must occur, in a file of the checkout.
  void edit(const std::string& file, const std::string& from, const std::string& to) const;
  void append(const std::string& file, const std::string& text) const;

  // `sweepctl ARGUMENTS --root ...`
  exec::CommandSpec command(std::vector<std::string> arguments) const;
  Ran sweepctl(std::vector<std::string> arguments) const;
  Ran run(std::vector<std::string> more = {}) const;  // `run --out OUT`
  Ran resume() const;                                 // `run --resume --out OUT`

  std::string text(const std::string& name) const;     // of a file of the bundle
  nlohmann::json json(const std::string& name) const;  // likewise
  bool has(const std::string& name) const;

  // A private copy of the generated model.
  std::filesystem::path copy_of_model() const;

  // A copy of the model whose tokenizer has words that are one token each, all beginning with `beginning` (small
  // letters), pinned as the entry's. Returns its folder, for --weights.
  std::string use_model_with_words(const std::string& beginning) const;

 private:
  base::TempDir folder_;
};

// Waits until the file is there and `process` still runs; false if the process ended first.
bool wait_for_file(const std::filesystem::path& file, exec::Process& process);

// False for processes that have ended, reaped or not.
bool is_running(pid_t pid);

// Waits until no process has this pid, up to a minute.
bool wait_for_end(pid_t pid);

}  // namespace sweep::test
