#include "kernels/gate/cases.h"

#include "kernels/oracle/random.h"

namespace flashmla::gate {
namespace {

constexpr flashmla_kv_format kFormats[] = {FLASHMLA_KV_V4_584, FLASHMLA_KV_V32_656, FLASHMLA_KV_V41_528,
                                           FLASHMLA_KV_V41_FP4_288};
constexpr int32_t kHeadCounts[] = {1, 2, 5, 8, 16, 64, 128};

class Builder {
 public:
  explicit Builder(uint64_t seed) : seed_(seed) {}

  // The case gets `name` and a seed of its own; `edit` changes the defaults.
  template <typename Edit>
  void add(std::string name, Edit edit) {
    Case one;
    one.name = std::move(name);
    one.seed = seed_ * 1000003U + cases_.size();
    edit(one);
    cases_.push_back(std::move(one));
  }

  std::vector<Case> take() { return std::move(cases_); }

 private:
  uint64_t seed_;
  std::vector<Case> cases_;
};

// Every format with every head count; the other dimensions wander so that each value turns up somewhere.
void add_grid(Builder& builder) {
  constexpr int32_t kQueryTokens[] = {1, 2, 3, 4, 8, 16, 5};
  constexpr int32_t kTopk[] = {64, 1, 65, 128, 7, 63, 96};
  for (size_t f = 0; f < std::size(kFormats); ++f) {
    for (size_t h = 0; h < std::size(kHeadCounts); ++h) {
      const flashmla_kv_format format = kFormats[f];
      const int32_t heads = kHeadCounts[h];
      builder.add("grid-" + std::string(format_name(format)) + "-h" + std::to_string(heads), [&](Case& one) {
        one.format = format;
        one.num_heads = heads;
        one.s_q = heads > 16 ? 1 : kQueryTokens[(h + f) % std::size(kQueryTokens)];
        one.batch = heads > 16 ? 1 : 2;
        one.main_topk = kTopk[(h + 2 * f) % std::size(kTopk)];
        one.extra_topk = (h + f) % 2 == 0 ? kTopk[(h + 3 * f + 2) % std::size(kTopk)] : 0;
      });
    }
  }
}

// What decides between right and wrong more often than size does.
void add_edges(Builder& builder, flashmla_kv_format format) {
  const std::string prefix = std::string(format_name(format)) + "-";
  auto add = [&](const char* name, auto edit) {
    builder.add(prefix + name, [&](Case& one) {
      one.format = format;
      edit(one);
    });
  };
  add("one-token", [](Case& one) { one.main_topk = 1; });
  add("no-token", [](Case& one) { one.main_topk = 0; });
  add("all-invalid", [](Case& one) { one.invalid = Invalid::kAll, one.sink = Sink::kMixed, one.extra_topk = 32; });
  add("invalid-rows", [](Case& one) { one.invalid = Invalid::kWholeRows, one.s_q = 3, one.sink = Sink::kFinite; });
  add("invalid-anywhere", [](Case& one) { one.invalid = Invalid::kSome, one.s_q = 2, one.extra_topk = 100; });
  add("uneven-lengths", [](Case& one) { one.lengths = true, one.batch = 6, one.extra_topk = 80; });
  add("page-edges", [](Case& one) {
    one.selection = Selection::kPageEdges, one.main_page_size = 7, one.extra_page_size = 2, one.extra_topk = 40;
  });
  add("page-of-one", [](Case& one) { one.main_page_size = 1, one.extra_page_size = 256, one.extra_topk = 64; });
  add("duplicates", [](Case& one) { one.selection = Selection::kDuplicates, one.s_q = 2, one.extra_topk = 20; });
  add("extreme-logits",
      [](Case& one) { one.logits = Logits::kExtreme, one.extra_topk = 64, one.sink = Sink::kFinite; });
  add("long-tail", [](Case& one) { one.logits = Logits::kLongTail, one.main_topk = 700, one.batch = 1; });
  add("sink-finite", [](Case& one) { one.sink = Sink::kFinite, one.s_q = 2; });
  add("sink-minus-inf", [](Case& one) { one.sink = Sink::kMinusInfinity; });
  add("sink-plus-inf", [](Case& one) { one.sink = Sink::kPlusInfinity; });
  add("sink-mixed", [](Case& one) { one.sink = Sink::kMixed, one.num_heads = 5; });
  add("strided", [](Case& one) { one.strided = true, one.s_q = 3, one.extra_topk = 48, one.num_heads = 5; });
  add("nan-of-another-request", [](Case& one) { one.nan_in_one_request = true, one.batch = 3, one.s_q = 2; });
  add("empty-batch", [](Case& one) { one.batch = 0; });
}

void add_model_shapes(Builder& builder) {
  builder.add("v4-verify-step", [](Case& one) {
    one.batch = 1, one.s_q = 8, one.main_topk = 128, one.extra_topk = 512, one.selection = Selection::kWindow;
    one.sink = Sink::kFinite, one.main_page_size = 256, one.lengths = true;
  });
  builder.add("v4-prompt", [](Case& one) {
    one.batch = 2, one.s_q = 16, one.main_topk = 128, one.extra_topk = 64, one.selection = Selection::kWindow;
    one.invalid = Invalid::kSome, one.sink = Sink::kFinite;
  });
  builder.add("v4-drafting", [](Case& one) { one.batch = 1, one.s_q = 7, one.main_topk = 192, one.num_heads = 8; });
  builder.add("v32-arbitrary-scales", [](Case& one) {
    one.format = FLASHMLA_KV_V32_656, one.arbitrary_scales = true, one.main_topk = 256, one.s_q = 2;
  });
}

void add_dense(Builder& builder) {
  builder.add("dense-576-causal", [](Case& one) { one.dense = true, one.s_q = 4, one.num_heads = 16; });
  builder.add("dense-512-causal", [](Case& one) { one.dense = true, one.d_qk = 512, one.s_q = 16, one.num_heads = 5; });
  builder.add("dense-576-full",
              [](Case& one) { one.dense = true, one.causal = false, one.s_q = 2, one.longest = 200; });
  builder.add("dense-short", [](Case& one) { one.dense = true, one.s_q = 8, one.longest = 3, one.batch = 4; });
  builder.add("dense-one-token", [](Case& one) { one.dense = true, one.longest = 1, one.batch = 1; });
  builder.add("dense-strided",
              [](Case& one) { one.dense = true, one.strided = true, one.page_size = 5, one.batch = 3; });
  builder.add("dense-extreme-logits", [](Case& one) { one.dense = true, one.logits = Logits::kExtreme, one.s_q = 2; });
  builder.add("dense-h128", [](Case& one) { one.dense = true, one.num_heads = 128, one.batch = 1, one.longest = 100; });
  builder.add("dense-empty-batch", [](Case& one) { one.dense = true, one.batch = 0; });
}

void add_random(Builder& builder, uint64_t seed, int count) {
  Random random(seed ^ 0x6761746573U);
  auto one_in = [&](int n) { return random.integer(1, n) == 1; };
  for (int i = 0; i < count; ++i) {
    builder.add("random-" + std::to_string(i), [&](Case& one) {
      one.dense = one_in(5);
      one.batch = random.integer(1, 3);
      one.s_q = random.integer(1, FLASHMLA_MAX_QUERY_TOKENS);
      one.num_heads = one_in(4) ? random.integer(1, FLASHMLA_MAX_HEADS) : random.integer(1, 16);
      if (one.num_heads > 16) one.batch = 1, one.s_q = random.integer(1, 2);
      one.logits = static_cast<Logits>(random.integer(0, 2));
      one.strided = one_in(3);
      one.format = kFormats[random.integer(0, 3)];
      one.main_topk = random.integer(0, 160);
      one.extra_topk = one_in(2) ? random.integer(1, 200) : 0;
      one.main_page_size = random.integer(1, 100);
      one.extra_page_size = random.integer(1, 100);
      one.selection = static_cast<Selection>(random.integer(0, 3));
      one.invalid = one_in(2) ? Invalid::kNone : static_cast<Invalid>(random.integer(1, 2));
      one.sink = static_cast<Sink>(random.integer(0, 4));
      one.lengths = one_in(2);
      one.arbitrary_scales = one.format == FLASHMLA_KV_V32_656 && one_in(2);
      one.nan_in_one_request = one_in(6);
      one.d_qk = one_in(2) ? 576 : 512;
      one.longest = random.integer(1, 250);
      one.page_size = random.integer(1, 80);
      one.causal = !one_in(3);
    });
  }
}

}  // namespace

const char* format_name(flashmla_kv_format format) {
  switch (format) {
    case FLASHMLA_KV_V4_584:
      return "v4";
    case FLASHMLA_KV_V32_656:
      return "v32";
    case FLASHMLA_KV_V41_528:
      return "v41";
    case FLASHMLA_KV_V41_FP4_288:
      return "v41-fp4";
  }
  return "unknown";
}

std::string Case::shape() const {
  std::string text = dense ? "dense " + std::to_string(d_qk) : std::string("sparse ") + format_name(format);
  text += " b" + std::to_string(batch) + " sq" + std::to_string(s_q) + " h" + std::to_string(num_heads);
  if (dense) return text + " len<=" + std::to_string(longest) + " page" + std::to_string(page_size);
  text += " topk" + std::to_string(main_topk);
  if (extra_topk > 0) text += "+" + std::to_string(extra_topk);
  text += " page" + std::to_string(main_page_size);
  if (extra_topk > 0) text += "+" + std::to_string(extra_page_size);
  return text;
}

std::vector<Case> make_cases(CaseSet set, uint64_t seed) {
  Builder builder(seed);
  add_model_shapes(builder);
  add_grid(builder);
  add_edges(builder, FLASHMLA_KV_V4_584);
  add_dense(builder);
  if (set == CaseSet::kFull) {
    add_edges(builder, FLASHMLA_KV_V32_656);
    add_edges(builder, FLASHMLA_KV_V41_528);
    add_edges(builder, FLASHMLA_KV_V41_FP4_288);
    add_random(builder, seed, 200);
  }
  return builder.take();
}

}  // namespace flashmla::gate
