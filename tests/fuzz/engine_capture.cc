// What engines say about themselves: pages of counters, documents and logs. First byte: which engine; then the text.
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "orchestrator/engine/decode_log.h"
#include "orchestrator/engine/json_stats.h"
#include "orchestrator/engine/spec_counters.h"
#include "tests/fuzz/require.h"

namespace {

using namespace sweep;
using fuzz::require;

void check_page(std::string_view text, std::string_view engine) {
  const auto page = engine::parse_metrics(text, "page");
  if (!page) return require(page.error().where->line > 0, "a refused page has no line");
  const engine::CounterNames& names = *engine::find_counter_names(engine);
  const auto counters = engine::spec_counters(*page, names);
  if (!counters) return require(!counters.error().message.empty(), "a refusal lacks words");
  require(counters->drafts.value_or(0) >= 0, "a count is negative");
  diag::Diagnostics diagnostics;
  const auto nothing = engine::counted_between(*page, *page, names, diagnostics);
  require(nothing.has_value() && diagnostics.empty(), "a page differs from itself");
  require(nothing->drafts.value_or(0) == 0 && nothing->accepted.value_or(0) == 0, "something was counted in no time");
}

void check_log(std::string_view text, std::string_view engine) {
  const engine::LogSource source{.text = text, .file = "log", .engine = std::string(engine)};
  const auto all = engine::read_decode_log(source, {});
  if (!all) return require(!all.error().message.empty(), "a refusal lacks words");
  const engine::WindowSummary summary = engine::summarise(all->windows);
  if (summary.mean)
    require(*summary.min >= 1 && *summary.mean >= *summary.min - 1e-9 && *summary.mean <= *summary.max + 1e-9,
            "a mean outside its windows");
  const auto late = engine::read_decode_log(source, {.from = engine::parse_log_time("12:00:00"), .to = std::nullopt});
  if (late && all->ready_line.value_or(1) == 1)
    require(late->windows.size() <= all->windows.size(), "an interval has more windows than all of the log");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const auto engines = engine::counter_names();
  const std::string_view engine = engines[data[0] % engines.size()].engine;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  check_page(text, engine);
  check_log(text, engine);
  const auto stats = engine::parse_json_stats(text, engine, "stats");
  if (!stats) require(!stats.error().message.empty(), "a refusal lacks words");
  return 0;
}
