// Samples of GPUs and the window they are held against, as other tools write them: a CSV, and behind a line of dashes
// the window. No crash, what is refused is said at a place, and energy is claimed only if nothing was found.
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "orchestrator/telemetry/evaluate.h"
#include "tests/fuzz/require.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sweep;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  constexpr std::string_view kBreak = "---\n";
  const size_t at = text.find(kBreak);
  diag::Diagnostics out;
  const auto capture = telemetry::parse_capture("gpu.csv", text.substr(0, at), out);
  fuzz::require(capture || out.has_errors(), "a capture is refused without a word");
  const size_t before = out.items().size();
  const auto window = telemetry::parse_window(
      "window.json", at == std::string_view::npos ? "{}" : std::string(text.substr(at + kBreak.size())), out);
  fuzz::require(window || out.items().size() > before, "a window is refused without a word");
  for (const diag::Diagnostic& d : out.items()) fuzz::require(d.where.has_value(), "a finding lacks a place");
  if (!capture || !window) return 0;

  for (const telemetry::Requirements& requirements : {telemetry::Requirements{}, telemetry::kLive}) {
    const telemetry::PowerReport report = telemetry::evaluate(*capture, *window, requirements);
    const auto energy = report.total_energy_j();
    fuzz::require(energy.has_value() == report.valid(), "energy and validity differ");
    fuzz::require(!energy || (std::isfinite(*energy) && *energy > 0), "an energy that no GPU has");
    fuzz::require(report.valid() == report.reasons().empty(), "reasons and validity differ");
    fuzz::require(telemetry::values_json(report)["total_energy_j"].is_null() == !energy, "the document says another");
  }
  return 0;
}
