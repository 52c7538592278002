#include "kernels/gate/case_builder.h"
#include "kernels/oracle/random.h"

namespace flashmla::gate {
namespace {

class Drawer {
 public:
  explicit Drawer(uint64_t seed) : random_(seed) {}
  bool one_in(int n) { return random_.integer(1, n) == 1; }
  int32_t between(int32_t low, int32_t high) { return random_.integer(low, high); }

 private:
  Random random_;
};

void draw_sparse(Drawer& draw, Case& one) {
  one.format = kFormats[draw.between(0, 3)];
  one.main_topk = draw.between(0, draw.one_in(6) ? 700 : 160);
  one.extra_topk = draw.one_in(2) ? draw.between(1, 200) : 0;
  one.main_page_size = draw.between(1, 100);
  one.extra_page_size = draw.between(1, 100);
  one.selection = static_cast<Selection>(draw.between(0, 3));
  one.invalid = draw.one_in(2) ? Invalid::kNone : static_cast<Invalid>(draw.between(1, 2));
  one.sink = static_cast<Sink>(draw.between(0, 4));
  one.lengths = draw.one_in(2);
  if (one.format == FLASHMLA_KV_V32_656 && draw.one_in(2)) one.scales = Scales::kArbitrary;
  if (draw.one_in(8)) one.scales = draw.one_in(2) ? Scales::kSpread : Scales::kHostile;
  if (draw.one_in(6)) one.spoiler = Spoiler::kNan;
}

void draw_dense(Drawer& draw, Case& one) {
  one.d_qk = draw.one_in(2) ? 576 : 512;
  one.longest = draw.between(0, draw.one_in(6) ? 900 : 250);
  one.page_size = draw.between(1, 80);
  one.causal = !draw.one_in(3);
}

}  // namespace

void add_random(CaseBuilder& builder, uint64_t seed, int count) {
  Drawer draw(seed ^ 0x6761746573U);
  for (int i = 0; i < count; ++i) {
    builder.add("random-" + std::to_string(i), [&](Case& one) {
      one.dense = draw.one_in(5);
      one.batch = draw.between(1, 3);
      one.s_q = draw.between(1, FLASHMLA_MAX_QUERY_TOKENS);
      one.num_heads = draw.one_in(4) ? draw.between(1, FLASHMLA_MAX_HEADS) : draw.between(1, 16);
      if (one.num_heads > 16) one.batch = 1, one.s_q = draw.between(1, 2);
      one.logits = draw.one_in(2) ? Logits::kNormal : static_cast<Logits>(draw.between(1, 6));
      one.strided = draw.one_in(3);
      one.unaligned = draw.one_in(6);
      if (one.dense) {
        draw_dense(draw, one);
      } else {
        draw_sparse(draw, one);
      }
    });
  }
}

}  // namespace flashmla::gate
