// The numbers of queries, keys and scales that a case asks for.
#pragma once

#include "kernels/gate/cases.h"
#include "kernels/oracle/random.h"

namespace flashmla::gate {

float draw_query(const Case& one, Random& random);

// The size of a token's values: 1 but for long tails.
float draw_token_size(Logits logits, Random& random);
float draw_key(Logits logits, float token_size, Random& random);

// True if the case draws scales of its own in place of those the record writers choose.
bool replaces_scales(Scales scales);
// The exponent of a power-of-two scale.
int32_t draw_scale_exponent(Scales scales, Random& random);
// An E4M3 code of a finite positive number.
uint8_t draw_scale_code(Scales scales, Random& random);

}  // namespace flashmla::gate
