// What the gate runs: a fixed set that has every format, head count and edge, and a seeded random one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "flashmla/flashmla.h"

namespace flashmla::gate {

enum class Sink { kNone, kFinite, kMinusInfinity, kPlusInfinity, kMixed };
enum class Logits { kNormal, kExtreme, kLongTail };
enum class Selection { kRandom, kWindow, kDuplicates, kPageEdges };
enum class Invalid { kNone, kSome, kWholeRows, kAll };

struct Case {
  std::string name;  // unique; also names the cell of the report
  uint64_t seed = 0;
  bool dense = false;
  int32_t batch = 2;
  int32_t s_q = 1;
  int32_t num_heads = 8;
  Logits logits = Logits::kNormal;
  bool strided = false;             // gaps between all rows, filled with NaN or guard values
  bool nan_in_one_request = false;  // request 0 selects a NaN token, no other does

  // Sparse only.
  flashmla_kv_format format = FLASHMLA_KV_V4_584;
  int32_t main_topk = 64;
  int32_t extra_topk = 0;  // 0 = no extra cache
  int32_t main_page_size = 64;
  int32_t extra_page_size = 64;
  Selection selection = Selection::kRandom;
  Invalid invalid = Invalid::kNone;
  Sink sink = Sink::kNone;
  bool lengths = false;           // random topk_length, 0 included; what lies behind is garbage
  bool arbitrary_scales = false;  // V32_656 only: scales that are no powers of two

  // Dense only.
  int32_t d_qk = 576;
  int32_t longest = 128;  // lengths are drawn from 0 to this; the first request has exactly this
  int32_t page_size = 64;
  bool causal = true;

  std::string shape() const;
};

enum class CaseSet { kQuick, kFull };

std::vector<Case> make_cases(CaseSet set, uint64_t seed);

const char* format_name(flashmla_kv_format format);

}  // namespace flashmla::gate
