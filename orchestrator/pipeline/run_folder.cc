#include "orchestrator/pipeline/run_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <array>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <vector>

#include "orchestrator/diag/rules/file.h"
#include "orchestrator/diag/rules/run.h"

namespace sweep::pipeline {

namespace {

namespace fs = std::filesystem;
namespace rule = diag::rule;

diag::Diagnostic malformed(const fs::path& path, std::string_view what) {
  return diag::make_at(rule::file_malformed, {.file = path.string()}, fmt::format("{}", what),
                       "delete it to have the stage done again, or use a new folder");
}

constexpr const char* kLockName = ".lock";

// Temporary names of files that a killed process was writing.
void remove_unfinished_files(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> unfinished;
  for (fs::directory_iterator item(folder, error), end; !error && item != end; item.increment(error)) {
    const std::string name = item->path().filename().string();
    if (name.starts_with('.') && name != kLockName && item->is_regular_file(error)) unfinished.push_back(item->path());
  }
  for (const fs::path& path : unfinished) fs::remove(path, error);
}

}  // namespace

diag::Result<RunFolder> RunFolder::open(const fs::path& path, bool resume) {
  std::error_code error;
  if (!resume && fs::exists(path / stage_file::kPlan, error))
    return diag::fail(rule::run_exists, fmt::format("\"{}\" already holds a run", path.string()),
                      "continue it with --resume, or name a new folder with --out");
  if (resume && !fs::exists(path / stage_file::kPlan, error))
    return diag::fail(rule::run_nothing_to_resume, fmt::format("\"{}\" holds no run", path.string()),
                      "leave --resume out to start one there");
  if (auto made = base::make_directories(path); !made)
    return diag::fail(rule::file_unwritable, made.error().text(), "name another folder with --out");
  base::FileDescriptor lock(::open((path / kLockName).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (!lock.is_open())
    return diag::fail(rule::file_unwritable, base::IoError{"open", path / kLockName, errno}.text(),
                      "name another folder with --out");
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0)
    return diag::fail(rule::run_in_use, fmt::format("another sweepctl works in \"{}\"", path.string()));
  remove_unfinished_files(path);
  return RunFolder(path, std::move(lock));
}

diag::Result<std::optional<nlohmann::json>> RunFolder::read(std::string_view name) const {
  const auto text = base::read_file(file(name));
  if (!text) {
    if (text.error().error_number == ENOENT) return std::optional<nlohmann::json>();
    return diag::fail(rule::file_unreadable, text.error().text());
  }
  auto document = nlohmann::json::parse(*text, nullptr, false);
  if (!document.is_object()) return diag::fail(malformed(file(name), "not a JSON object"));
  const auto version = document.find("schema_version");
  if (version == document.end() || *version != kStageFileVersion)
    return diag::fail(malformed(file(name), fmt::format("schema_version is not {}", kStageFileVersion)));
  document.erase("schema_version");
  document.erase("tool_version");
  return std::optional(std::move(document));
}

diag::Result<diag::Done> RunFolder::write(std::string_view name, nlohmann::json document) const {
  document["schema_version"] = kStageFileVersion;
  document["tool_version"] = SWEEPCTL_VERSION;
  return write_text(name, document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

diag::Result<diag::Done> RunFolder::write_text(std::string_view name, std::string_view text) const {
  if (auto written = base::write_file_atomic(file(name), text); !written)
    return diag::fail(rule::file_unwritable, written.error().text());
  return diag::Done{};
}

diag::Result<diag::Done> RunFolder::set_attempt_aside() const {
  constexpr std::array kLeftovers{stage_file::kRequestsPartial, stage_file::kRequests,
                                  stage_file::kEngine,          stage_file::kEngineLog,
                                  stage_file::kPower,           stage_file::kCountersBefore,
                                  stage_file::kCountersAfter,   stage_file::kStatisticsBefore,
                                  stage_file::kStatisticsAfter};
  std::error_code error;
  fs::path target;
  for (int attempt = 1;; ++attempt) {
    target = file(fmt::format("attempt-{}", attempt));
    if (!fs::exists(target, error)) break;
  }
  for (const char* name : kLeftovers) {
    if (!fs::exists(file(name), error)) continue;
    if (auto made = base::make_directories(target); !made)
      return diag::fail(rule::file_unwritable, made.error().text());
    fs::rename(file(name), target / name, error);
    if (error)
      return diag::fail(rule::file_unwritable,
                        fmt::format("cannot move {} aside: {}", file(name).string(), error.message()));
  }
  return diag::Done{};
}

}  // namespace sweep::pipeline
