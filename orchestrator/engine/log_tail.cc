#include "orchestrator/engine/log_tail.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <system_error>
#include <utility>

#include "orchestrator/diag/rules/engine.h"

namespace sweep::engine {

namespace {

constexpr uint64_t kTailBytes = uint64_t{4} << 20;

std::string tail_of(const std::filesystem::path& log) {
  const uint64_t size = log_size(log);
  const uint64_t length = std::min(size, kTailBytes);
  std::ifstream file(log, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(size - length));
  std::string text(length, '\0');
  file.read(text.data(), static_cast<std::streamsize>(length));
  text.resize(static_cast<size_t>(std::max<std::streamsize>(file.gcount(), 0)));
  return text;
}

}  // namespace

uint64_t log_size(const std::filesystem::path& log) {
  std::error_code error;
  const auto size = std::filesystem::file_size(log, error);
  return error ? 0 : size;
}

namespace {

constexpr std::string_view kTraceback = "Traceback (most recent call last)";

// The exception that a traceback ends with: the first line behind it that is not indented. Lines of servers have
// prefixes, behind which it is indented.
std::string_view exception_behind(std::string_view rest, std::string_view traceback) {
  const std::string_view prefix = traceback.substr(0, traceback.find(kTraceback));
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    std::string_view inner = line;
    if (inner.starts_with(prefix)) inner.remove_prefix(prefix.size());
    if (!inner.empty() && inner.front() != ' ') return line;
  }
  return traceback;
}

}  // namespace

std::optional<LogTrouble> worst_trouble(const std::filesystem::path& log) {
  const std::string text = tail_of(log);
  std::optional<LogTrouble> worst;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    const auto kind = trouble_in(line);
    if (!kind || (worst && *kind >= worst->kind)) continue;
    const bool is_traceback = line.find(kTraceback) != std::string_view::npos;
    worst = LogTrouble{*kind, printable(is_traceback ? exception_behind(rest, line) : line)};
  }
  return worst;
}

diag::Diagnostic failure_told_by(const std::filesystem::path& log, diag::RuleId rule, std::string message,
                                 std::string help) {
  const auto trouble = worst_trouble(log);
  if (!trouble) return diag::make(rule, std::move(message), std::move(help));
  switch (trouble->kind) {
    case Trouble::kOutOfMemory:
      rule = diag::rule::engine_out_of_memory;
      break;
    case Trouble::kPortTaken:
      rule = diag::rule::engine_port_taken;
      break;
    case Trouble::kDevice:
      rule = diag::rule::engine_device_error;
      break;
    case Trouble::kOther:
      break;
  }
  return diag::make(rule, fmt::format("{}; its log says: {}", message, trouble->text), std::move(help));
}

}  // namespace sweep::engine
