// What differs between the two libraries built from one set of objects, the same for every backend.
#pragma once

#include <cstdint>

namespace flashmla {

extern const char* const kVariantName;  // "native" or "padded64"
extern const int32_t kHeadMultiple;     // heads are computed in multiples of this; the ones added have zero queries

}  // namespace flashmla
