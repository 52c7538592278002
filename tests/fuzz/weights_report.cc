// Reports of verifications, as they come from other hosts: no crash, what is accepted is written the same again, and
// a host never disagrees with itself.
#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "orchestrator/weights/agree.h"
#include "tests/fuzz/require.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sweep;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto report = weights::report_from_json(nlohmann::json::parse(text, nullptr, false));
  if (!report) {
    fuzz::require(!report.error().message.empty(), "a refusal lacks words");
    return 0;
  }
  const nlohmann::json written = weights::to_json(*report);
  const auto again = weights::report_from_json(written);
  fuzz::require(again.has_value(), "a report that was written is refused");
  fuzz::require(weights::to_json(*again) == written, "a report is not written the same again");

  const std::array<weights::HostReport, 2> hosts{
      {{.host = "a", .source = "a.json", .report = *report}, {.host = "b", .source = "b.json", .report = *again}}};
  const weights::Agreement agreement = weights::agree(hosts);
  fuzz::require(agreement.differences.empty(), "a host differs from itself");
  fuzz::require(!agreement.agreed || report->verified, "agreed on what is not verified");
  fuzz::require(weights::to_json(agreement, hosts)["agreed"] == agreement.agreed, "the document says something else");
  return 0;
}
