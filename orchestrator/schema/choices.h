// Closed sets of words in configuration files: one table each for reading, printing, "expected one of" and docs.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sweep::schema {

enum class AcceptanceSource : uint8_t { kGolden, kMeasured, kExplicit };
enum class Status : uint8_t { kReady, kInProgress };
enum class SpecDecoding : uint8_t { kNone, kMtp, kDraftModel, kDspark };
enum class KvOffloading : uint8_t { kNone, kDram };
enum class ScenarioKind : uint8_t { kFixedSeqLen, kAgenticCoding };

// The words of an enumeration in the order of its values.
template <class E>
struct ChoiceNames;
template <>
struct ChoiceNames<AcceptanceSource> {
  static constexpr std::array<std::string_view, 3> kNames{"golden", "measured", "explicit"};
};
template <>
struct ChoiceNames<Status> {
  static constexpr std::array<std::string_view, 2> kNames{"ready", "in-progress"};
};
template <>
struct ChoiceNames<SpecDecoding> {
  static constexpr std::array<std::string_view, 4> kNames{"none", "mtp", "draft_model", "dspark"};
};
template <>
struct ChoiceNames<KvOffloading> {
  static constexpr std::array<std::string_view, 2> kNames{"none", "dram"};
};
template <>
struct ChoiceNames<ScenarioKind> {
  static constexpr std::array<std::string_view, 2> kNames{"fixed-seq-len", "agentic-coding"};
};

template <class E>
std::string_view choice_name(E value) {
  return ChoiceNames<E>::kNames[static_cast<size_t>(value)];
}

template <class E>
std::optional<E> parse_choice(std::string_view text) {
  for (size_t i = 0; i < ChoiceNames<E>::kNames.size(); ++i)
    if (ChoiceNames<E>::kNames[i] == text) return static_cast<E>(i);
  return std::nullopt;
}

// All names of a set of choices, in its order.
template <class E>
std::vector<std::string> choice_names() {
  return {ChoiceNames<E>::kNames.begin(), ChoiceNames<E>::kNames.end()};
}

}  // namespace sweep::schema
