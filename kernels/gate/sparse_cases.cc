#include <functional>

#include "kernels/gate/case_builder.h"

namespace flashmla::gate {
namespace {

// Adds cases of one format, or of two, named after them.
class FormatCases {
 public:
  FormatCases(CaseBuilder& builder, flashmla_kv_format format, std::optional<flashmla_kv_format> extra = std::nullopt)
      : builder_(builder), format_(format), extra_(extra) {}

  template <typename Edit>
  void add(const std::string& name, Edit edit) {
    const std::string extra = extra_ ? std::string("+") + format_name(*extra_) : "";
    builder_.add(format_name(format_) + extra + "-" + name, [&](Case& one) {
      one.format = format_, one.extra_format = extra_;
      edit(one);
    });
  }

 private:
  CaseBuilder& builder_;
  flashmla_kv_format format_;
  std::optional<flashmla_kv_format> extra_;
};

// More rows than blocks run at a time on any device so far, so that blocks have several, of different lengths.
void make_many_rows(Case& one, int32_t queries, int32_t heads, int32_t tokens) {
  one.batch = 17, one.s_q = queries, one.num_heads = heads, one.main_topk = tokens;
  one.lengths = true, one.sink = Sink::kFinite;
}

}  // namespace

// The dimensions besides the head count wander, so that each value turns up somewhere.
void add_head_counts(CaseBuilder& builder) {
  constexpr int32_t kQueryTokens[] = {1, 2, 3, 4, 8, 16, 5};
  constexpr int32_t kTopk[] = {64, 1, 65, 128, 7, 63, 96};
  for (size_t f = 0; f < std::size(kFormats); ++f) {
    for (size_t h = 0; h < std::size(kHeadCounts); ++h) {
      const int32_t heads = kHeadCounts[h];
      builder.add("grid-" + std::string(format_name(kFormats[f])) + "-h" + std::to_string(heads), [&](Case& one) {
        one.format = kFormats[f];
        one.num_heads = heads;
        one.s_q = heads > 12 ? 1 : kQueryTokens[(h + f) % std::size(kQueryTokens)];
        one.batch = heads > 12 ? 1 : 2;
        one.main_topk = kTopk[(h + 2 * f) % std::size(kTopk)];
        one.extra_topk = (h + f) % 2 == 0 ? kTopk[(h + 3 * f + 2) % std::size(kTopk)] : 0;
      });
    }
  }
}

void add_query_tokens(CaseBuilder& builder) {
  for (const flashmla_kv_format format : kFormats) {
    FormatCases cases(builder, format);
    for (int32_t tokens = 1; tokens <= FLASHMLA_MAX_QUERY_TOKENS; ++tokens) {
      cases.add("sq" + std::to_string(tokens), [&](Case& one) {
        one.s_q = tokens, one.num_heads = tokens % 3 == 0 ? 16 : 8, one.main_topk = 128, one.extra_topk = 80;
        one.selection = Selection::kWindow, one.lengths = tokens % 2 == 0, one.main_page_size = 256;
        one.sink = tokens % 4 == 1 ? Sink::kFinite : Sink::kNone;
      });
    }
  }
}

void add_token_counts(CaseBuilder& builder) {
  for (const flashmla_kv_format format : kFormats) {
    FormatCases cases(builder, format);
    for (const int32_t count : kTokenCounts) {
      cases.add("tokens-" + std::to_string(count), [&](Case& one) { one.main_topk = count; });
      // The same number from two caches, cut so that neither part is a round number.
      cases.add("tokens-" + std::to_string(count) + "-split", [&](Case& one) {
        one.main_topk = count > 128 ? 128 : count / 3 + 1, one.extra_topk = count - one.main_topk;
        one.num_heads = 16, one.s_q = 2, one.batch = 1;
      });
    }
  }
}

void add_edges(CaseBuilder& builder, flashmla_kv_format format) {
  FormatCases cases(builder, format);
  cases.add("one-token", [](Case& one) { one.main_topk = 1; });
  cases.add("one-token-of-extra", [](Case& one) { one.main_topk = 0, one.extra_topk = 1, one.s_q = 2; });
  cases.add("no-token", [](Case& one) { one.main_topk = 0; });
  cases.add("all-invalid",
            [](Case& one) { one.invalid = Invalid::kAll, one.sink = Sink::kMixed, one.extra_topk = 32; });
  cases.add("invalid-rows",
            [](Case& one) { one.invalid = Invalid::kWholeRows, one.s_q = 3, one.sink = Sink::kFinite; });
  cases.add("invalid-anywhere", [](Case& one) { one.invalid = Invalid::kSome, one.s_q = 2, one.extra_topk = 100; });
  cases.add("outside-the-pool", [](Case& one) { one.invalid = Invalid::kOutside, one.s_q = 2, one.extra_topk = 70; });
  cases.add("uneven-lengths", [](Case& one) { one.lengths = true, one.batch = 6, one.extra_topk = 80; });
  cases.add("uneven-batch", [](Case& one) {
    one.lengths = true, one.batch = 17, one.extra_topk = 512, one.main_topk = 128, one.num_heads = 2;
  });
  cases.add("page-edges", [](Case& one) {
    one.selection = Selection::kPageEdges, one.main_page_size = 7, one.extra_page_size = 2, one.extra_topk = 40;
  });
  cases.add("page-of-one", [](Case& one) { one.main_page_size = 1, one.extra_page_size = 256, one.extra_topk = 64; });
  cases.add("duplicates", [](Case& one) { one.selection = Selection::kDuplicates, one.s_q = 2, one.extra_topk = 20; });
  cases.add("extreme-logits",
            [](Case& one) { one.logits = Logits::kExtreme, one.extra_topk = 64, one.sink = Sink::kFinite; });
  cases.add("long-tail", [](Case& one) { one.logits = Logits::kLongTail, one.main_topk = 700, one.batch = 1; });
  cases.add("sink-finite", [](Case& one) { one.sink = Sink::kFinite, one.s_q = 2; });
  cases.add("sink-minus-inf", [](Case& one) { one.sink = Sink::kMinusInfinity; });
  cases.add("sink-plus-inf", [](Case& one) { one.sink = Sink::kPlusInfinity; });
  cases.add("sink-mixed", [](Case& one) { one.sink = Sink::kMixed, one.num_heads = 5; });
  cases.add("strided", [](Case& one) { one.strided = true, one.s_q = 3, one.extra_topk = 48, one.num_heads = 5; });
  cases.add("unaligned", [](Case& one) {
    one.unaligned = true, one.strided = true, one.s_q = 2, one.extra_topk = 65, one.num_heads = 8;
  });
  cases.add("nan-of-another-request", [](Case& one) { one.spoiler = Spoiler::kNan, one.batch = 3, one.s_q = 2; });
  cases.add("empty-batch", [](Case& one) { one.batch = 0; });
}

void add_hostile_numbers(CaseBuilder& builder, flashmla_kv_format format) {
  FormatCases cases(builder, format);
  auto sized = [](Case& one) { one.s_q = 2, one.main_topk = 96, one.extra_topk = 40; };
  cases.add("scales-spread", [&](Case& one) { sized(one), one.scales = Scales::kSpread; });
  cases.add("scales-spread-extreme",
            [&](Case& one) { sized(one), one.scales = Scales::kSpread, one.logits = Logits::kExtreme; });
  cases.add("scales-tiny", [&](Case& one) { sized(one), one.scales = Scales::kTiny; });
  cases.add("scales-hostile", [&](Case& one) { sized(one), one.scales = Scales::kHostile; });
  cases.add("queries-tiny", [&](Case& one) { sized(one), one.logits = Logits::kTiny; });
  cases.add("queries-huge", [&](Case& one) { sized(one), one.logits = Logits::kHuge; });
  cases.add("signed-zero", [&](Case& one) { sized(one), one.logits = Logits::kSignedZero; });
  cases.add("one-sided", [&](Case& one) { sized(one), one.logits = Logits::kOneSided; });
  if (format != FLASHMLA_KV_V4_584 && format != FLASHMLA_KV_V32_656) return;
  cases.add("plus-inf-of-another-request",
            [](Case& one) { one.spoiler = Spoiler::kPlusInfinity, one.batch = 3, one.s_q = 2; });
  cases.add("minus-inf-of-another-request",
            [](Case& one) { one.spoiler = Spoiler::kMinusInfinity, one.batch = 3, one.s_q = 2; });
}

// More rows than there are clusters for blocks of 8 heads, and fewer than fill a device.
void make_rows_of_16_heads(Case& one, flashmla_kv_format format) {
  one.format = format, one.num_heads = 16, one.sink = Sink::kFinite;
  if (format == FLASHMLA_KV_V32_656) {
    one.batch = 4, one.main_topk = 2048, one.scales = Scales::kArbitrary;
  } else {
    one.batch = 12, one.main_topk = 128, one.extra_topk = 1024;
  }
}

void add_model_shapes(CaseBuilder& builder) {
  builder.add("v4-verify-step", [](Case& one) {
    one.batch = 1, one.s_q = 8, one.main_topk = 128, one.extra_topk = 512, one.selection = Selection::kWindow;
    one.sink = Sink::kFinite, one.main_page_size = 256, one.lengths = true;
  });
  builder.add("v4-prompt", [](Case& one) {
    one.batch = 2, one.s_q = 16, one.main_topk = 128, one.extra_topk = 64, one.selection = Selection::kWindow;
    one.invalid = Invalid::kSome, one.sink = Sink::kFinite;
  });
  builder.add("v4-128+1024-h16-b12", [](Case& one) {
    make_rows_of_16_heads(one, FLASHMLA_KV_V4_584);
    one.invalid = Invalid::kSome, one.lengths = true;
  });
  builder.add("v4-drafting", [](Case& one) { one.batch = 1, one.s_q = 7, one.main_topk = 192, one.num_heads = 8; });
  builder.add("v32-arbitrary-scales", [](Case& one) {
    one.format = FLASHMLA_KV_V32_656, one.scales = Scales::kArbitrary, one.main_topk = 256, one.s_q = 2;
  });
}

void add_many_rows(CaseBuilder& builder) {
  builder.add("v4-rows272-h16", [](Case& one) { make_many_rows(one, 16, 16, 100); });
  for (const int32_t heads : {8, 16}) {
    builder.add("v32-rows136-h" + std::to_string(heads), [&](Case& one) {
      one.format = FLASHMLA_KV_V32_656;
      make_many_rows(one, 8, heads, heads == 8 ? 360 : 100);
    });
  }
}

// A window in FP8 beside compressed tokens in FP4, as V4.1 has them, and other pairs.
void add_two_formats(CaseBuilder& builder) {
  const auto add = [&](flashmla_kv_format main, flashmla_kv_format extra, const std::string& name, auto edit) {
    FormatCases(builder, main, extra).add(name, [&](Case& one) {
      one.main_topk = 128, one.extra_topk = 512, one.extra_page_size = 256;
      edit(one);
    });
  };
  constexpr flashmla_kv_format kMain = FLASHMLA_KV_V41_528, kExtra = FLASHMLA_KV_V41_FP4_288;
  for (const int32_t heads : {1, 8, 16, 64, 128}) {
    add(kMain, kExtra, "h" + std::to_string(heads), [&](Case& one) { one.num_heads = heads, one.s_q = 2; });
  }
  add(kMain, kExtra, "verify-step",
      [](Case& one) { one.s_q = 8, one.selection = Selection::kWindow, one.sink = Sink::kFinite, one.lengths = true; });
  add(kMain, kExtra, "b32", [](Case& one) { one.batch = 32, one.sink = Sink::kMixed; });
  add(kMain, kExtra, "few",
      [](Case& one) { one.main_topk = 1, one.extra_topk = 3, one.batch = 3, one.lengths = true; });
  add(kMain, kExtra, "no-main", [](Case& one) { one.main_topk = 0, one.sink = Sink::kFinite; });
  add(kMain, kExtra, "none-valid", [](Case& one) { one.invalid = Invalid::kAll; });
  add(kMain, kExtra, "some-invalid", [](Case& one) { one.invalid = Invalid::kSome, one.strided = true; });
  add(kMain, kExtra, "unaligned", [](Case& one) { one.unaligned = true, one.main_topk = 65; });
  add(kMain, kExtra, "scales-tiny", [](Case& one) { one.scales = Scales::kTiny; });
  add(FLASHMLA_KV_V4_584, kMain, "h8", [](Case&) {});
  add(kExtra, FLASHMLA_KV_V4_584, "h8", [](Case& one) { one.s_q = 4, one.lengths = true; });
}

void add_large_model_shapes(CaseBuilder& builder) {
  builder.add("v4-rows136-h64", [](Case& one) { make_many_rows(one, 8, 64, 640); });
  // A block has a row to itself, many times as long as what it holds of it.
  builder.add("v4-rows136-1152", [](Case& one) { make_many_rows(one, 8, 8, 1152); });
  builder.add("v32-rows136-2048-h16", [](Case& one) {
    one.format = FLASHMLA_KV_V32_656;
    make_many_rows(one, 8, 16, 2048);
  });
  for (const int32_t batch : {1, 2, 8, 32, 64}) {
    builder.add("v4-128+512-b" + std::to_string(batch), [&](Case& one) {
      one.batch = batch, one.main_topk = 128, one.extra_topk = 512, one.sink = Sink::kFinite;
      one.lengths = batch == 8 || batch == 32;
    });
  }
  builder.add("v4-128+512-b8-sq8", [](Case& one) {
    one.batch = 8, one.s_q = 8, one.main_topk = 128, one.extra_topk = 512, one.selection = Selection::kWindow;
  });
  builder.add("v4-128+512-h16-b16", [](Case& one) {
    one.batch = 16, one.num_heads = 16, one.main_topk = 128, one.extra_topk = 512, one.invalid = Invalid::kSome;
  });
  for (const int32_t batch : {1, 16}) {
    builder.add("v4-128+1024-h16-b" + std::to_string(batch), [&](Case& one) {
      one.batch = batch, one.num_heads = 16, one.main_topk = 128, one.extra_topk = 1024, one.sink = Sink::kFinite;
    });
  }
  for (const flashmla_kv_format format : {FLASHMLA_KV_V4_584, FLASHMLA_KV_V32_656}) {
    const auto add = [&](const char* name, const std::function<void(Case&)>& change) {
      builder.add(std::string(format_name(format)) + "-h16-" + name, [&](Case& one) {
        make_rows_of_16_heads(one, format);
        change(one);
      });
    };
    add("few-rows", [](Case&) {});
    add("few-rows-scales-spread", [](Case& one) { one.scales = Scales::kSpread; });
    add("few-rows-scales-hostile", [](Case& one) { one.scales = Scales::kHostile; });
    add("few-rows-plus-inf", [](Case& one) { one.spoiler = Spoiler::kPlusInfinity; });
  }
  // Eight rows, whose blocks have most tokens of all for few rows.
  const auto add_eight = [&](const char* name, const std::function<void(Case&)>& change) {
    builder.add(std::string("v32-2048-b8-") + name, [&](Case& one) {
      one.format = FLASHMLA_KV_V32_656, one.batch = 8, one.main_topk = 2048, one.sink = Sink::kMixed;
      change(one);
    });
  };
  add_eight("uneven", [](Case& one) { one.lengths = true, one.invalid = Invalid::kSome; });
  add_eight("scales-spread", [](Case& one) { one.scales = Scales::kSpread; });
  add_eight("scales-hostile", [](Case& one) { one.scales = Scales::kHostile; });
  add_eight("nan", [](Case& one) { one.spoiler = Spoiler::kNan; });
  builder.add("v4-128+1024-h16-b8", [](Case& one) {
    make_rows_of_16_heads(one, FLASHMLA_KV_V4_584);
    one.batch = 8, one.sink = Sink::kMixed, one.lengths = true, one.invalid = Invalid::kSome;
  });
  builder.add("v4-128+1024-h16-b8-scales-spread", [](Case& one) {
    make_rows_of_16_heads(one, FLASHMLA_KV_V4_584);
    one.batch = 8, one.sink = Sink::kNone, one.scales = Scales::kSpread;
  });
  for (const flashmla_kv_format format : {FLASHMLA_KV_V41_528, FLASHMLA_KV_V41_FP4_288}) {
    for (const int32_t batch : {1, 32}) {
      builder.add(std::string(format_name(format)) + "-128+512-b" + std::to_string(batch), [&](Case& one) {
        one.format = format, one.batch = batch, one.main_topk = 128, one.extra_topk = 512, one.sink = Sink::kFinite;
      });
    }
  }
  for (const int32_t batch : {1, 8, 32}) {
    builder.add("v32-2048-b" + std::to_string(batch), [&](Case& one) {
      one.format = FLASHMLA_KV_V32_656, one.batch = batch, one.main_topk = 2048, one.scales = Scales::kArbitrary;
    });
  }
}

// The shapes of upstream's error table with 8 heads where it has 64 (the errors are per head); the figures are its own:
// output mean, relative Frobenius, LSE mean.
void add_published_shapes(CaseBuilder& builder) {
  auto v4 = [&](const char* name, const Published& published, auto edit) {
    builder.add(std::string("published-v4-") + name, [&](Case& one) {
      one.main_topk = 128, one.extra_topk = 512, one.published = published;
      edit(one);
    });
  };
  v4("b3-sq2-sink-len", {1.11e-4, 1.97e-3, 3.4e-7},
     [](Case& one) { one.batch = 3, one.s_q = 2, one.sink = Sink::kFinite, one.lengths = true; });
  v4("b3-sq2", {1.12e-4, 1.97e-3, 3.4e-7}, [](Case& one) { one.batch = 3, one.s_q = 2; });
  v4("b5-sq2-sink-inf-invalid", {1.17e-4, 2.01e-3, 3.7e-7},
     [](Case& one) { one.batch = 5, one.s_q = 2, one.sink = Sink::kMixed, one.invalid = Invalid::kSome; });
  v4("b64-1024-sink", {9.28e-5, 1.98e-3, 3.7e-7},
     [](Case& one) { one.batch = 64, one.extra_topk = 1024, one.sink = Sink::kFinite; });
  v4("b16-sq4-sink", {1.15e-4, 2.04e-3, 3.6e-7},
     [](Case& one) { one.batch = 16, one.s_q = 4, one.sink = Sink::kFinite; });
  v4("h128-b4", {1.11e-4, 1.97e-3, 3.5e-7}, [](Case& one) { one.batch = 4, one.num_heads = 128; });
  auto v32 = [&](const char* name, const Published& published, auto edit) {
    builder.add(std::string("published-v32-") + name, [&](Case& one) {
      one.format = FLASHMLA_KV_V32_656, one.main_topk = 2048, one.published = published;
      edit(one);
    });
  };
  v32("b3-sq2", {7.33e-5, 1.88e-3, 4.3e-7}, [](Case& one) { one.batch = 3, one.s_q = 2; });
  v32("b4-sq2-invalid-sink", {7.57e-5, 1.90e-3, 4.2e-7},
      [](Case& one) { one.batch = 4, one.s_q = 2, one.invalid = Invalid::kSome, one.sink = Sink::kFinite; });
  v32("b28", {7.49e-5, 1.91e-3, 4.6e-7}, [](Case& one) { one.batch = 28; });
  v32("h128-b8", {7.43e-5, 1.90e-3, 4.6e-7}, [](Case& one) { one.batch = 8, one.num_heads = 128; });
  v32("b3-sq2-arbitrary-scales", {1.33e-4, 3.09e-3, 6.9e-5},
      [](Case& one) { one.batch = 3, one.s_q = 2, one.scales = Scales::kArbitrary; });
  auto dense = [&](const char* name, const Published& published, auto edit) {
    builder.add(std::string("published-dense-") + name, [&](Case& one) {
      one.dense = true, one.all_longest = true, one.published = published;
      edit(one);
    });
  };
  dense("h16-b3-sq2", {9.61e-5, 1.93e-3, 6.1e-7},
        [](Case& one) { one.num_heads = 16, one.batch = 3, one.s_q = 2, one.longest = 1000; });
  dense("h128-b2", {6.45e-5, 1.81e-3, 7.8e-7}, [](Case& one) { one.num_heads = 128, one.longest = 4096; });
  dense("h64-b8", {9.71e-5, 1.97e-3, 6.7e-7}, [](Case& one) { one.num_heads = 64, one.batch = 8, one.longest = 1024; });
}

}  // namespace flashmla::gate
