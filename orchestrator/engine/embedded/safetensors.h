// The safetensors file format: an 8-byte little-endian header length, a JSON header, the tensors' bytes.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/diag/diagnostic.h"

namespace sweep::engine::embedded {

enum class Dtype : uint8_t { kBf16, kF32 };
std::string_view dtype_name(Dtype dtype);
inline int64_t dtype_bytes(Dtype dtype) {
  return dtype == Dtype::kBf16 ? 2 : 4;
}

struct TensorSpec {
  std::string name;
  Dtype dtype = Dtype::kBf16;
  std::vector<int64_t> shape;

  int64_t elements() const;
  int64_t bytes() const { return elements() * dtype_bytes(dtype); }
};

// A tensor and its bytes, little endian, row-major.
struct Tensor {
  TensorSpec spec;
  std::string bytes;
};

// The file's content for these tensors in this order. The header is padded so that data begins at a multiple of 8.
std::string safetensors_bytes(const std::vector<Tensor>& tensors);

// Takes a file apart. Refuses headers that are not JSON, unknown dtypes, and offsets that overlap, leave holes or do
// not fit the shapes. `name` is used in messages.
diag::Result<std::map<std::string, Tensor>> parse_safetensors(std::string_view content, const std::string& name);

}  // namespace sweep::engine::embedded
