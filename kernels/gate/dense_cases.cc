#include "kernels/gate/case_builder.h"

namespace flashmla::gate {

void add_dense(CaseBuilder& builder) {
  auto add = [&](const char* name, auto edit) {
    builder.add(std::string("dense-") + name, [&](Case& one) {
      one.dense = true;
      edit(one);
    });
  };
  add("576-causal", [](Case& one) { one.s_q = 4, one.num_heads = 16; });
  add("512-causal", [](Case& one) { one.d_qk = 512, one.s_q = 16, one.num_heads = 5; });
  add("576-full", [](Case& one) { one.causal = false, one.s_q = 2, one.longest = 200; });
  add("512-full", [](Case& one) { one.d_qk = 512, one.causal = false, one.s_q = 3, one.longest = 150; });
  add("short", [](Case& one) { one.s_q = 8, one.longest = 3, one.batch = 4; });
  add("one-token", [](Case& one) { one.longest = 1, one.batch = 1; });
  add("no-token", [](Case& one) { one.longest = 0, one.s_q = 2; });
  add("strided", [](Case& one) { one.strided = true, one.page_size = 5, one.batch = 3; });
  add("unaligned", [](Case& one) { one.strided = true, one.unaligned = true, one.page_size = 9, one.s_q = 2; });
  add("page-of-one", [](Case& one) { one.page_size = 1, one.longest = 70, one.s_q = 2; });
  add("extreme-logits", [](Case& one) { one.logits = Logits::kExtreme, one.s_q = 2; });
  add("long-tail", [](Case& one) { one.logits = Logits::kLongTail, one.longest = 600, one.batch = 1; });
  add("queries-tiny", [](Case& one) { one.logits = Logits::kTiny, one.s_q = 2; });
  add("queries-huge", [](Case& one) { one.logits = Logits::kHuge, one.s_q = 2; });
  add("signed-zero", [](Case& one) { one.logits = Logits::kSignedZero, one.d_qk = 512; });
  add("one-sided", [](Case& one) { one.logits = Logits::kOneSided, one.longest = 300; });
  add("uneven-batch", [](Case& one) { one.batch = 17, one.longest = 300, one.num_heads = 2, one.s_q = 2; });
  add("h128", [](Case& one) { one.num_heads = 128, one.batch = 1, one.longest = 100; });
  add("empty-batch", [](Case& one) { one.batch = 0; });
}

void add_dense_sizes(CaseBuilder& builder) {
  for (size_t h = 0; h < std::size(kHeadCounts); ++h) {
    const int32_t heads = kHeadCounts[h];
    builder.add("dense-heads-" + std::to_string(heads), [&](Case& one) {
      one.dense = true, one.num_heads = heads, one.d_qk = h % 3 == 1 ? 512 : 576;
      one.s_q = heads > 12 ? 2 : static_cast<int32_t>(h) % 5 + 1, one.longest = 100 + static_cast<int32_t>(h);
    });
  }
  for (int32_t tokens = 1; tokens <= FLASHMLA_MAX_QUERY_TOKENS; ++tokens) {
    builder.add("dense-sq" + std::to_string(tokens), [&](Case& one) {
      one.dense = true, one.s_q = tokens, one.d_qk = tokens % 4 == 0 ? 512 : 576, one.batch = 3;
      one.causal = tokens % 5 != 0, one.longest = 60 + tokens, one.num_heads = tokens % 2 == 0 ? 16 : 8;
    });
  }
  for (const int32_t count : kTokenCounts) {
    builder.add("dense-tokens-" + std::to_string(count), [&](Case& one) {
      one.dense = true, one.longest = count, one.all_longest = true, one.s_q = 2;
      one.num_heads = count % 2 == 0 ? 16 : 8, one.page_size = count % 3 == 0 ? 16 : 64;
    });
  }
  builder.add("dense-4096", [](Case& one) { one.dense = true, one.longest = 4096, one.num_heads = 16; });
  builder.add("dense-4096-causal", [](Case& one) {
    one.dense = true, one.longest = 4096, one.s_q = 8, one.batch = 1, one.page_size = 256, one.d_qk = 512;
  });
  for (const int32_t heads : {32, 64, 128}) {
    for (const int32_t count : {700, 2048}) {
      builder.add("dense-h" + std::to_string(heads) + "-" + std::to_string(count), [&](Case& one) {
        one.dense = true, one.batch = 1, one.num_heads = heads, one.longest = count, one.all_longest = true;
        one.d_qk = heads == 64 ? 512 : 576;
      });
    }
  }
  builder.add("dense-h64-b5",
              [](Case& one) { one.dense = true, one.batch = 5, one.num_heads = 64, one.longest = 1500; });
  builder.add("dense-b64", [](Case& one) { one.dense = true, one.longest = 256, one.batch = 64, one.num_heads = 16; });
}

}  // namespace flashmla::gate
