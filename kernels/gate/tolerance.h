// How far a kernel may be from the FP64 oracle. Both bounds hold element by element and scale with the problem, so that
// extreme logits need no exception.
//
// LSE (FP32). Scores are FP32 sums of d_qk products. Such a sum is off by a few 2^-24 of the sum of the magnitudes
// (`score_mass`; the worst case would be d_qk / 16 of them, which random rounding does not come near). The LSE moves by
// at most as much as the scores do; exp, log and the sum over tokens add some units of 2^-24, storing the result half a
// unit in the last place of |lse|.
//
// Output (BF16). Storing costs half a unit of BF16, at most 2^-8 of the value. A score error of e moves a weight by the
// factor 1 + e, so the rest is in proportion to sum(weight * |v|). A backend that rounds its weights to BF16 needs a
// bound of its own here; none does today.
#pragma once

#include <cmath>

#include "kernels/oracle/oracle.h"

namespace flashmla::gate {

struct Tolerance {
  double unit = 0x1p-24;        // rounding error of FP32
  double output_unit = 0x1p-8;  // of BF16
  double score_factor = 2;
  double sum_units = 8;

  double lse(const oracle::Row& row) const {
    return unit * (std::fabs(row.lse) + score_factor * row.score_mass + sum_units);
  }
  double output(const oracle::Row& row, size_t dim) const {
    const double weights = unit * (2 * score_factor * row.score_mass + 2 * sum_units);
    // 2^-134 is half of the smallest BF16 number.
    return output_unit * std::fabs(row.out[dim]) + (1 + output_unit) * weights * row.abs_out[dim] + 0x1p-134;
  }
};

}  // namespace flashmla::gate
