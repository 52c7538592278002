#include "orchestrator/cli/terminal_progress.h"

#include <fmt/format.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <string>

#include "orchestrator/base/clock.h"

namespace sweep::cli {

namespace {

using pipeline::Stage;
using pipeline::stage_name;

constexpr double kNanosecond = 1e-9;

double seconds_since(int64_t begin_ns) {
  return static_cast<double>(base::monotonic_ns() - begin_ns) * kNanosecond;
}

class SilentProgress final : public pipeline::Progress {
 public:
  void begin(Stage, std::string_view) override {}
  void advance(Stage, int64_t, int64_t, std::string_view) override {}
  void end(Stage, std::string_view) override {}
  void reuse(Stage, std::string_view) override {}
  void fail(Stage, std::string_view) override {}
};

// Lines of a log, for workflow runs and pipes.
class PlainProgress final : public pipeline::Progress {
 public:
  PlainProgress() : logger_("progress", std::make_shared<spdlog::sinks::stderr_sink_st>()) {
    logger_.set_pattern("[%H:%M:%S] %v");
    logger_.flush_on(spdlog::level::info);
  }

  void begin(Stage stage, std::string_view detail) override {
    begin_ns_ = base::monotonic_ns();
    last_line_ns_ = begin_ns_;
    line(stage, detail, "...");
  }
  void advance(Stage stage, int64_t done, int64_t total, std::string_view detail) override {
    constexpr double kHeartbeatSeconds = 60;
    if (seconds_since(last_line_ns_) < kHeartbeatSeconds) return;
    last_line_ns_ = base::monotonic_ns();
    line(stage, fmt::format("{} of {} {}", done, total, detail), "");
  }
  void end(Stage stage, std::string_view outcome) override {
    line(stage, outcome, fmt::format(" ({:.2f} s)", seconds_since(begin_ns_)));
  }
  void reuse(Stage stage, std::string_view outcome) override { line(stage, outcome, " (kept from before)"); }
  void fail(Stage stage, std::string_view reason) override { line(stage, reason, " FAILED"); }

 private:
  void line(Stage stage, std::string_view text, std::string_view suffix) {
    logger_.info("{}", fmt::format("{:<9} {}{}", stage_name(stage), text, suffix));
  }

  spdlog::logger logger_;
  int64_t begin_ns_ = 0;
  int64_t last_line_ns_ = 0;
};

class TerminalProgress final : public pipeline::Progress {
 public:
  explicit TerminalProgress(const Console& console) : console_(console), colour_(console.colour_on_stderr()) {}
  ~TerminalProgress() override { erase(); }

  void begin(Stage stage, std::string_view detail) override {
    begin_ns_ = base::monotonic_ns();
    draw(fmt::format("  {:<9} {}", stage_name(stage), detail));
  }
  void advance(Stage stage, int64_t done, int64_t total, std::string_view detail) override {
    constexpr double kRedrawSeconds = 0.1;
    if (done != total && seconds_since(last_draw_ns_) < kRedrawSeconds) return;
    constexpr int64_t kCells = 20;
    const double share = total > 0 ? static_cast<double>(done) / static_cast<double>(total) : 0;
    const auto filled = static_cast<size_t>(share * kCells);
    const double elapsed = seconds_since(begin_ns_);
    std::string estimate;
    if (done > 0 && done < total && elapsed > 1)
      estimate = fmt::format(", about {:.0f} s left", elapsed / share - elapsed);
    draw(fmt::format("  {:<9} [{:<{}}] {}/{} {}, {:.0f} s{}", stage_name(stage), std::string(filled, '#'), kCells, done,
                     total, detail, elapsed, estimate));
  }
  void end(Stage stage, std::string_view outcome) override {
    line("\x1b[32m", "+", stage, outcome, fmt::format("{:.2f} s", seconds_since(begin_ns_)));
  }
  void reuse(Stage stage, std::string_view outcome) override {
    line("\x1b[36m", "=", stage, outcome, "kept from before");
  }
  void fail(Stage stage, std::string_view reason) override { line("\x1b[31m", "x", stage, reason, ""); }

 private:
  void erase() {
    if (drawn_) console_.err("\r\x1b[K");
    drawn_ = false;
  }
  void draw(std::string text) {
    const auto width = static_cast<size_t>(std::max(20, console_.stderr_width() - 1));
    if (text.size() > width) text.resize(width);
    console_.err("\r\x1b[K" + text);
    drawn_ = true;
    last_draw_ns_ = base::monotonic_ns();
  }
  void line(std::string_view colour, std::string_view mark, Stage stage, std::string_view text, std::string_view time) {
    erase();
    console_.err(fmt::format(
        "{}{}{} {:<9} {}{}\n", colour_ ? colour : "", mark, colour_ ? "\x1b[0m" : "", stage_name(stage), text,
        time.empty() ? "" : fmt::format("{}  {}{}", colour_ ? "\x1b[2m" : "", time, colour_ ? "\x1b[0m" : "")));
  }

  const Console& console_;
  bool colour_;
  bool drawn_ = false;
  int64_t begin_ns_ = 0;
  int64_t last_draw_ns_ = 0;
};

}  // namespace

std::unique_ptr<pipeline::Progress> make_progress(const Console& console, bool quiet) {
  if (quiet) return std::make_unique<SilentProgress>();
  if (console.stderr_is_terminal()) return std::make_unique<TerminalProgress>(console);
  return std::make_unique<PlainProgress>();
}

}  // namespace sweep::cli
