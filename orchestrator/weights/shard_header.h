// The events of a safetensors header, taken apart as it is parsed.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "orchestrator/weights/json_keys.h"

namespace sweep::weights {

struct HeaderTensor {
  std::string name;
  std::string dtype;
  std::vector<uint64_t> shape;
  uint64_t begin = 0;
  uint64_t end = 0;
  bool has_fields = true;     // dtype, shape and two offsets, each of its type
  bool natural_shape = true;  // no negative, fractional or nested extent
};

// A tree of all values would cost several times the time and memory, and no check needs one. Nesting of any depth is
// taken without recursion.
class HeaderReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return value(Value::kOther); }
  bool boolean(bool) override { return value(Value::kOther); }
  bool number_integer(number_integer_t) override { return value(Value::kOther); }
  bool number_unsigned(number_unsigned_t number) override;
  bool number_float(number_float_t, const string_t&) override { return value(Value::kOther); }
  bool string(string_t& text) override;
  bool binary(binary_t&) override { return value(Value::kOther); }
  bool key(string_t& name) override;
  bool start_object(size_t) override;
  bool end_object() override;
  bool start_array(size_t) override;
  bool end_array() override;
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception&) override {
    error_at = position;
    return false;
  }

  std::vector<HeaderTensor> tensors;  // as in the text; a name may come twice
  JsonKeys keys;
  bool metadata_is_text = true;  // __metadata__ is an object from text to text, or absent
  size_t error_at = 0;

 private:
  enum class Field : uint8_t { kOther, kDtype, kShape, kOffsets };
  enum class Value : uint8_t { kText, kNatural, kList, kObject, kOther };

  bool value(Value kind);
  void field_value(Value kind);
  void end_entry();

  size_t depth_ = 0;  // objects and lists around the current place
  bool in_metadata_ = false;
  HeaderTensor tensor_;
  Field field_ = Field::kOther;
  bool has_dtype_ = false;
  bool has_shape_ = false;
  size_t offsets_ = 0;
};

}  // namespace sweep::weights
