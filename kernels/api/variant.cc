#include "kernels/api/variant.h"

namespace flashmla {

#if defined(FLASHMLA_PADDED64)
const char* const kVariantName = "padded64";
const int32_t kHeadMultiple = 64;
#else
const char* const kVariantName = "native";
const int32_t kHeadMultiple = 1;
#endif

}  // namespace flashmla
