#include "kernels/gate/cases.h"

#include "kernels/gate/case_builder.h"
#include "kernels/gate/numbers.h"

namespace flashmla::gate {

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

const char* Case::group() const {
  if (dense) return d_qk == 576 ? "dense-576" : "dense-512";
  return format_name(format);
}

bool Case::ordinary() const {
  return logits == Logits::kNormal && !replaces_scales(scales) && spoiler == Spoiler::kNone;
}

std::string Case::shape() const {
  std::string text = dense ? "dense " + std::to_string(d_qk) : std::string("sparse ") + format_name(format);
  if (extra_format) text += std::string("+") + format_name(*extra_format);
  text += " b" + std::to_string(batch) + " sq" + std::to_string(s_q) + " h" + std::to_string(num_heads);
  if (dense) return text + " len<=" + std::to_string(longest) + " page" + std::to_string(page_size);
  text += " topk" + std::to_string(main_topk);
  if (extra_topk > 0) text += "+" + std::to_string(extra_topk);
  text += " page" + std::to_string(main_page_size);
  if (extra_topk > 0) text += "+" + std::to_string(extra_page_size);
  return text;
}

std::vector<Case> make_cases(CaseSet set, uint64_t seed) {
  CaseBuilder builder(seed);
  add_model_shapes(builder);
  add_head_counts(builder);
  add_edges(builder, FLASHMLA_KV_V4_584);
  for (const flashmla_kv_format format : kFormats) add_hostile_numbers(builder, format);
  add_dense(builder);
  add_many_rows(builder);
  if (set == CaseSet::kFull) {
    add_edges(builder, FLASHMLA_KV_V32_656);
    add_edges(builder, FLASHMLA_KV_V41_528);
    add_edges(builder, FLASHMLA_KV_V41_FP4_288);
    add_query_tokens(builder);
    add_token_counts(builder);
    add_dense_sizes(builder);
    add_large_model_shapes(builder);
    add_published_shapes(builder);
    add_two_formats(builder);
  }
  add_random(builder, seed, set == CaseSet::kFull ? 300 : 20);
  return builder.take();
}

}  // namespace flashmla::gate
