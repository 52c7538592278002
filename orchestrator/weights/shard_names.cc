#include "orchestrator/weights/shard_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "orchestrator/weights/safetensors.h"

namespace sweep::weights {

namespace {

std::optional<uint64_t> natural(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

std::optional<ShardNumber> shard_number(std::string_view name, std::string_view stem) {
  if (!name.starts_with(stem) || !name.ends_with(kShardSuffix)) return std::nullopt;
  name.remove_prefix(stem.size());
  if (name.size() <= kShardSuffix.size() || name.front() != '-') return std::nullopt;
  name.remove_suffix(kShardSuffix.size());
  name.remove_prefix(1);
  constexpr std::string_view kOf = "-of-";
  const size_t middle = name.find(kOf);
  if (middle == std::string_view::npos) return std::nullopt;
  const auto number = natural(name.substr(0, middle));
  const auto of = natural(name.substr(middle + kOf.size()));
  if (!number || !of) return std::nullopt;
  return ShardNumber{.number = *number, .of = *of};
}

std::string numbering_problem(const std::set<uint64_t>& numbers, uint64_t of) {
  if (numbers.empty()) return {};
  const uint64_t first = std::min<uint64_t>(*numbers.begin(), 1);
  const uint64_t last = std::max(*numbers.rbegin(), first == 0 && of > 0 ? of - 1 : of);
  if (last > of) return fmt::format("there is a number {} of {}", last, of);
  for (uint64_t number = first; number <= last; ++number)
    if (!numbers.contains(number)) return fmt::format("number {} of {} is not among them", number, of);
  return {};
}

}  // namespace sweep::weights
