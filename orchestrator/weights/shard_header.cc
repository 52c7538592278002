#include "orchestrator/weights/shard_header.h"

namespace sweep::weights {

namespace {

// Depths of the parts of {"name": {"dtype": "..", "shape": [..], "data_offsets": [.., ..]}}.
constexpr size_t kInHeader = 1;
constexpr size_t kInTensor = 2;
constexpr size_t kInList = 3;

}  // namespace

bool HeaderReader::key(string_t& name) {
  keys.key(name);
  if (depth_ == kInHeader) {
    in_metadata_ = name == "__metadata__";
    tensor_ = HeaderTensor{};
    tensor_.name = std::move(name);
    field_ = Field::kOther;
    has_dtype_ = has_shape_ = false;
    offsets_ = 0;
  } else if (depth_ == kInTensor) {
    field_ = name == "dtype"          ? Field::kDtype
             : name == "shape"        ? Field::kShape
             : name == "data_offsets" ? Field::kOffsets
                                      : Field::kOther;
    if (field_ == Field::kShape) tensor_.shape.clear();
    if (field_ == Field::kOffsets) offsets_ = 0;
  }
  return true;
}

// A value at the current place, or the begin of one.
bool HeaderReader::value(Value kind) {
  if (in_metadata_) {
    const bool right = depth_ == kInHeader ? kind == Value::kObject : depth_ == kInTensor && kind == Value::kText;
    metadata_is_text = metadata_is_text && right;
  } else if (depth_ == kInHeader) {
    tensor_.has_fields = kind == Value::kObject;
  } else {
    field_value(kind);
  }
  if (depth_ == kInHeader && kind != Value::kObject && kind != Value::kList) end_entry();
  return true;
}

void HeaderReader::field_value(Value kind) {
  switch (field_) {
    case Field::kOther:
      return;
    case Field::kDtype:
      has_dtype_ = depth_ == kInTensor && kind == Value::kText;
      return;
    case Field::kShape:
      if (depth_ == kInTensor)
        has_shape_ = kind == Value::kList;
      else if (kind != Value::kNatural)
        tensor_.natural_shape = false;
      return;
    case Field::kOffsets:
      if (depth_ == kInTensor ? kind != Value::kList : kind != Value::kNatural) tensor_.has_fields = false;
  }
}

bool HeaderReader::number_unsigned(number_unsigned_t number) {
  if (depth_ == kInList && !in_metadata_) {
    if (field_ == Field::kShape) tensor_.shape.push_back(number);
    if (field_ == Field::kOffsets) {
      if (offsets_ == 0) tensor_.begin = number;
      if (offsets_ == 1) tensor_.end = number;
      ++offsets_;
    }
  }
  return value(Value::kNatural);
}

bool HeaderReader::string(string_t& text) {
  value(Value::kText);
  if (depth_ == kInTensor && !in_metadata_ && field_ == Field::kDtype) tensor_.dtype = std::move(text);
  return true;
}

bool HeaderReader::start_object(size_t) {
  if (depth_ != 0) value(Value::kObject);
  keys.begin_object();
  ++depth_;
  return true;
}

bool HeaderReader::end_object() {
  keys.end_object();
  if (--depth_ == kInHeader) end_entry();
  return true;
}

bool HeaderReader::start_array(size_t) {
  if (depth_ != 0) value(Value::kList);
  ++depth_;
  return true;
}

bool HeaderReader::end_array() {
  if (--depth_ == kInHeader) end_entry();
  return true;
}

void HeaderReader::end_entry() {
  if (in_metadata_) return;
  tensor_.has_fields = tensor_.has_fields && has_dtype_ && has_shape_ && offsets_ == 2;
  tensors.push_back(std::move(tensor_));
}

}  // namespace sweep::weights
