// The matrix summary as Markdown, as text and as JSON. Formats what plan/summary.h holds; computes nothing.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "orchestrator/plan/summary.h"
#include "orchestrator/report/table.h"

namespace sweep::report {

enum class Language : uint8_t { kEnglish, kChinese };

// Long lists are cut and counted, so that the text stays far below the 1 MB of a step summary.
std::string matrix_summary(const plan::MatrixSummary& summary, TableStyle style, Language language);

inline constexpr int kMatrixSummaryVersion = 1;
nlohmann::ordered_json matrix_summary_json(const plan::MatrixSummary& summary);

}  // namespace sweep::report
