#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string>

#include "orchestrator/diag/rules/matrix.h"
#include "orchestrator/plan/row_builder.h"

namespace sweep::plan {

namespace {

using schema::Point;
using schema::PointView;

// A decimal text as a fraction with a power of ten below.
struct Fraction {
  int64_t numerator = 0;
  int64_t denominator = 1;
};
// The shortest decimal text that reads as `value`; 9 digits where there is none of up to 17.
Fraction fraction_of(double value) {
  constexpr int kMostDigits = 17;
  constexpr int kEnoughDigits = 9;
  std::string text;
  int digits = 1;
  for (; digits <= kMostDigits; ++digits) {
    text = fmt::format("{:.{}f}", value, digits);
    if (std::strtod(text.c_str(), nullptr) == value) break;
  }
  if (digits > kMostDigits) text = fmt::format("{:.{}f}", value, digits = kEnoughDigits);
  text.erase(text.find('.'), 1);
  Fraction fraction;
  std::from_chars(text.data(), text.data() + text.size(), fraction.numerator);
  for (int i = 0; i < digits; ++i) fraction.denominator *= 10;
  return fraction;
}

// GPUs of a node that share the host memory with this point; 0 if the point does not fit.
int64_t sharing_gpus(const Point& point, int64_t per_node) {
  if (!point.is_multi_node()) return point.gpus() <= per_node ? point.gpus() : 0;
  const int64_t worker = point.prefill->gpus_per_worker();
  if (worker > per_node) return worker % per_node == 0 ? per_node : 0;
  return per_node % worker == 0 ? worker : 0;
}

}  // namespace

// floor(min(MiB, cap) x 2^20 x utilisation x GPUs / GPUs per node / 10^9), exactly.
std::optional<int64_t> dram_budget(const PointView& view, const schema::Checkout& checkout, diag::Diagnostics& out) {
  constexpr int64_t kMostMib = 2'861'022;
  const Point& point = *view.point;
  if (point.kv_offloading.value_or(schema::KvOffloading::kNone) == schema::KvOffloading::kNone) return 0;
  const auto fail = [&](std::string message) {
    diag::Diagnostic d = diag::make_at(diag::rule::plan_dram_budget,
                                       view.entry->document->span(point.kv_offloading.where), std::move(message));
    d.path = view.path + ".kv-offloading";
    out.add(std::move(d));
    return std::nullopt;
  };
  const schema::RunnerHardware* hardware = checkout.runners.find_hardware(view.entry->runner.value);
  if (hardware == nullptr || !hardware->available_cpu_dram_mib || hardware->gpus_per_node.value < 1)
    return fail(fmt::format("the host memory of runner \"{}\" is not known", view.entry->runner.value));
  const int64_t per_node = *hardware->gpus_per_node;
  const int64_t gpus = sharing_gpus(point, per_node);
  if (gpus == 0) return fail(fmt::format("the point does not fit on nodes of {} GPUs", per_node));
  const Fraction share = fraction_of(view.agentic->dram_utilization.value);
  __extension__ using Wide = unsigned __int128;
  const Wide bytes = static_cast<Wide>(std::min(*hardware->available_cpu_dram_mib, kMostMib)) * (1u << 20);
  const Wide numerator = bytes * static_cast<Wide>(share.numerator) * static_cast<Wide>(gpus);
  const Wide denominator =
      static_cast<Wide>(share.denominator) * static_cast<Wide>(per_node) * static_cast<Wide>(1'000'000'000);
  return static_cast<int64_t>(numerator / denominator);
}

}  // namespace sweep::plan
