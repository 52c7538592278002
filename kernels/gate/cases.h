// What the gate runs: a fixed set that has every format, head count and edge, and a seeded random one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "flashmla/flashmla.h"

namespace flashmla::gate {

enum class Sink { kNone, kFinite, kMinusInfinity, kPlusInfinity, kMixed };
enum class Selection { kRandom, kWindow, kDuplicates, kPageEdges };

enum class Logits {
  kNormal,      // normal queries and keys: scores of a few units
  kExtreme,     // scores of a hundred units, one token wins
  kLongTail,    // many small keys, a few large ones
  kTiny,        // queries of 1e-30
  kHuge,        // queries of 1e6
  kSignedZero,  // half of all values are 0 or -0
  kOneSided     // nothing negative: every sum grows steadily, the hardest for an accumulator that truncates
};

// Which indices name no token.
enum class Invalid {
  kNone,
  kSome,       // one in four is -1
  kWholeRows,  // all of every second query token
  kAll,
  kOutside  // as kSome, but with numbers outside the pool: refused on CPU builds, no token on device builds
};

// Scales of the records. The last three are drawn anew per token and group; with kSpread and kHostile the queries are
// so small that scores stay near 1.
enum class Scales {
  kWritten,    // as the writers of records.h choose them
  kArbitrary,  // V32_656 only: no powers of two
  kSpread,     // 2^-30 to 2^10 (V41_FP4_288: all of E4M3)
  kTiny,       // 2^-100 to 2^-60 (V41_FP4_288: the smallest)
  kHostile     // 2^-100 to 2^60 (V41_FP4_288: the smallest and the largest)
};

// A token that spoils its own request and must not reach another one.
enum class Spoiler { kNone, kNan, kPlusInfinity, kMinusInfinity };  // infinities: in one BF16 dimension of V4, V32

// What upstream's kernel reached on data of this kind, for comparison (mean absolute errors).
struct Published {
  double output_mean = 0;  // 0 = nothing published
  double output_relative_frobenius = 0;
  double lse_mean = 0;
};

struct Case {
  std::string name;  // unique; also names the cell of the report
  uint64_t seed = 0;
  bool dense = false;
  int32_t batch = 2;
  int32_t s_q = 1;
  int32_t num_heads = 8;
  Logits logits = Logits::kNormal;
  bool strided = false;              // gaps between all rows, filled with NaN or guard values
  bool unaligned = false;            // bases and strides aligned to their elements only
  Spoiler spoiler = Spoiler::kNone;  // sparse only: the first token of request 0
  Published published;

  // Sparse only.
  flashmla_kv_format format = FLASHMLA_KV_V4_584;
  std::optional<flashmla_kv_format> extra_format;  // if it is another one
  int32_t main_topk = 64;
  int32_t extra_topk = 0;  // 0 = no extra cache
  int32_t main_page_size = 64;
  int32_t extra_page_size = 64;
  Selection selection = Selection::kRandom;
  Invalid invalid = Invalid::kNone;
  Sink sink = Sink::kNone;
  bool lengths = false;  // random topk_length, 0 included; what lies behind is garbage
  Scales scales = Scales::kWritten;

  // Dense only.
  int32_t d_qk = 576;
  int32_t longest = 128;     // lengths are drawn from 0 to this; the first request has exactly this
  bool all_longest = false;  // every request has
  int32_t page_size = 64;
  bool causal = true;

  std::string shape() const;
  bool ordinary() const;      // numbers such as models have: errors of these cells compare with published ones
  const char* group() const;  // "v4", "v32", "v41", "v41-fp4", "dense-576", "dense-512"
};

enum class CaseSet { kQuick, kFull };

std::vector<Case> make_cases(CaseSet set, uint64_t seed);

const char* format_name(flashmla_kv_format format);

}  // namespace flashmla::gate
