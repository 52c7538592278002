#include "orchestrator/base/json_fields.h"

#include <nlohmann/json.hpp>

namespace sweep::base {

const nlohmann::json* member(const nlohmann::json& object, const char* name) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

bool is_count(const nlohmann::json& value) {
  return value.is_number_unsigned() && value.get<uint64_t>() <= kMostCounted;
}

std::optional<int64_t> count_in(const nlohmann::json& object, const char* name) {
  const nlohmann::json* value = member(object, name);
  if (value == nullptr || !is_count(*value)) return std::nullopt;
  return value->get<int64_t>();
}

}  // namespace sweep::base
