// How far a kernel may be from the FP64 oracle. All bounds hold element by element and scale with the problem, so that
// extreme logits need no exception. They depend on what a backend computes with: tolerance_of() chooses.
//
// LSE (FP32). Scores are FP32 sums of d_qk products. Such a sum is off by a few 2^-24 of the sum of the magnitudes
// (`score_mass`; the worst case would be d_qk / 16 of them, which random rounding does not come near). The LSE moves by
// at most as much as the scores do; exp, log and the sum over tokens add some units of 2^-24, storing the result half a
// unit in the last place of |lse|.
//   Tensor cores cut their FP32 sums off instead of rounding them. That is up to twice the error per step
//   (`score_factor` 4 in place of 2), and it has a direction: over the 36 steps of 16 products of a score that grows
//   steadily it adds up to about 12 * 2^-24 of the score (`peak_factor` 16 of the largest score).
//
// Output (BF16). Storing costs half a unit of BF16, at most 2^-8 of the value. A score error of e moves a weight by the
// factor 1 + e, so the rest is in proportion to sum(weight * |v|).
//   Tensor cores take weights of 16 bits. Sparse decode rounds them to F16, 11 bits, so by up to 2^-11 each. FP32
//   scales are rounded so, too, and then what they are multiplied with: 3 * 2^-11 (`weight_unit`; the average is far
//   below, for roundings of many weights cancel). F16 ends at 2^-24, so that a weight far below the largest one is off
//   by half of that or lost. Weights may be multiplied with the scale of their token first, and the scales of ordinary
//   tokens differ by up to 4: hence sum(min(weight, 2^-23) * |v|) (`small_factor`). Dense decode splits them into a
//   pair of BF16, 16 bits and no such end; what is left is 2^-17 and the cut-off sums over up to 4096 tokens, 2^-17 too
//   (`weight_unit` 2^-15).
#pragma once

#include <cmath>
#include <string_view>

#include "kernels/oracle/oracle.h"

namespace flashmla::gate {

struct Tolerance {
  double unit = 0x1p-24;        // rounding error of FP32
  double output_unit = 0x1p-8;  // of BF16
  double score_factor = 2;
  double peak_factor = 0;
  double sum_units = 8;
  double weight_unit = 0;   // rounding error of a weight
  double small_factor = 0;  // how often a small weight may be lost: 0 or 1

  double lse(const oracle::Row& row) const { return unit * (std::fabs(row.lse) + score_units(row) + sum_units); }
  double output(const oracle::Row& row, size_t dim) const {
    const double weights = weight_unit + unit * 2 * (score_units(row) + sum_units);
    // 2^-134 is half of the smallest BF16 number. FP32 ends at 2^-149: sums of a thousand products that small are off
    // by up to 2^-139, which decides which of two BF16 numbers is the nearer one.
    return output_unit * std::fabs(row.out[dim]) +
           (1 + output_unit) * (weights * row.abs_out[dim] + small_factor * row.small_out[dim]) + 0x1p-134 + 0x1p-139;
  }

 private:
  double score_units(const oracle::Row& row) const {
    return score_factor * row.score_mass + peak_factor * row.score_peak;
  }
};

// What the keys and values are stored as: BF16, or numbers of few bits with scales that are powers of two, or any.
enum class Stored { kBf16, kExactScales, kFp32Scales };

// `arch` is flashmla_build.arch.
inline Tolerance tolerance_of(std::string_view arch, Stored stored) {
  Tolerance tolerance;
  if (arch == "cpu") return tolerance;  // FP32 throughout
  tolerance.score_factor = 4;
  tolerance.peak_factor = 16;
  tolerance.weight_unit = stored == Stored::kBf16 ? 0x1p-15 : stored == Stored::kExactScales ? 0x1p-11 : 0x1.8p-10;
  tolerance.small_factor = stored == Stored::kBf16 ? 0.0 : 1.0;
  return tolerance;
}

}  // namespace flashmla::gate
