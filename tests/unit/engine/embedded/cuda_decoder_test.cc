// The decoder on GPUs against the one on the CPU. Skipped where there is no GPU.
#include "orchestrator/engine/embedded/cuda/decoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <optional>

#include "orchestrator/base/rng.h"
#include "orchestrator/base/temp_dir.h"
#include "orchestrator/diag/rules/embedded.h"
#include "orchestrator/engine/embedded/cpu/decoder.h"
#include "orchestrator/engine/embedded/make_model.h"
#include "orchestrator/engine/embedded/model_shapes.h"
#include "orchestrator/engine/embedded/sampling.h"
#include "tests/support/catch.h"
#include "tests/support/environment.h"
#include "tests/unit/engine/small_model.h"

using namespace sweep;
using namespace sweep::engine::embedded;

#if !defined(SWEEPCTL_TEST_CUDA_ENGINE)

TEST_CASE("cuda decoder: a build without the CUDA engine says so") {
  auto temp = base::TempDir::create().value();
  MakeModelOptions options;
  options.config = small_config();
  REQUIRE(make_model(temp.path() / "model", options).has_value());
  const auto model = load_checkpoint(temp.path() / "model").value();
  auto kernels = KernelLibrary::load({.path = SWEEPCTL_TEST_KERNELS, .threads = 1}).value();
  const auto made = cuda::CudaDecoder::make(model, kernels, {});
  REQUIRE(!made.has_value());
  CHECK(made.error().rule == diag::rule::embedded_no_cuda);
}

#else

namespace {

// What a test with a GPU must be given: the folder with the kernel libraries and the engine's library, from the build
// or, on another machine, from the environment.
std::string from_environment(const char* name, const char* otherwise) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : otherwise;
}

std::string cuda_kernels() {
  return from_environment("SWEEPCTL_TEST_KERNELS_FOLDER", SWEEPCTL_TEST_KERNELS_FOLDER) + "/libflashmla-sm_90a.so";
}
std::string cpu_kernels() {
  return from_environment("SWEEPCTL_TEST_KERNELS_FOLDER", SWEEPCTL_TEST_KERNELS_FOLDER) + "/libflashmla-cpu.so";
}

Checkpoint checkpoint_of(const ModelConfig& config) {
  auto temp = base::TempDir::create().value();
  MakeModelOptions options;
  options.config = config;
  REQUIRE(make_model(temp.path() / "model", options).has_value());
  return load_checkpoint(temp.path() / "model").value();
}

std::vector<int32_t> prompt_of(const ModelConfig& config, uint64_t seed, int64_t length) {
  base::SplitMix64 random(seed);
  std::vector<int32_t> prompt;
  for (int64_t i = 0; i < length; ++i) {
    prompt.push_back(static_cast<int32_t>(4 + random.below(static_cast<uint64_t>(config.vocab_size - 4))));
  }
  return prompt;
}

constexpr int64_t kBlocks = 12;
constexpr int64_t kPositions = 320;
constexpr int64_t kSequences = 3;

struct Made {
  KernelLibrary kernels;
  std::unique_ptr<Decoder> decoder;
};

// Nothing where there is no such number of GPUs.
std::optional<Made> cuda_decoder(const Checkpoint& model, int64_t ranks = 1,
                                 const std::string& kernels = cuda_kernels()) {
  Made made{KernelLibrary::load({.path = kernels, .threads = 1}).value(), nullptr};
  const std::string library = from_environment("SWEEPCTL_TEST_CUDA_ENGINE", SWEEPCTL_TEST_CUDA_ENGINE);
  auto decoder = cuda::CudaDecoder::make(model, made.kernels,
                                         {.library = library,
                                          .ranks = ranks,
                                          .num_blocks = kBlocks,
                                          .sequences = kSequences,
                                          .positions = kPositions,
                                          .rows = 320});
  if (!decoder) {
    CHECK(
        (decoder.error().rule == diag::rule::embedded_device || decoder.error().rule == diag::rule::embedded_no_cuda));
    std::printf("%s\n", decoder.error().message.c_str());
    return std::nullopt;
  }
  made.decoder = std::move(decoder).value();
  return made;
}

Made cpu_decoder(const Checkpoint& model) {
  Made made{KernelLibrary::load({.path = cpu_kernels(), .threads = 2}).value(), nullptr};
  made.decoder = std::make_unique<cpu::CpuDecoder>(
      model, made.kernels, cpu::CpuDecoder::Options{.threads = 2, .num_blocks = kBlocks, .positions = kPositions});
  return made;
}

void require_good(const diag::Result<diag::Done>& done) {
  INFO((done ? std::string() : done.error().message));
  REQUIRE(done.has_value());
}

// Logits of all tokens: the first `prompt` at once, the rest in steps of 8 query tokens, each with 3 that are wrong.
std::vector<float> teacher_forced(Decoder& decoder, const ModelConfig& config, const std::vector<int32_t>& tokens,
                                  int64_t prompt) {
  Sequence sequence;
  sequence.blocks = {5, 1, 7, 0, 3, 9, 2, 8, 4, 6};
  sequence.memory = decoder.make_memory();
  std::vector<float> all;
  const auto add = [&](int64_t count) {
    std::vector<int64_t> rows;
    for (int64_t i = 0; i < count; ++i) rows.push_back(decoder.row_of(0, i));
    std::vector<float> logits;
    require_good(decoder.logits(rows, logits));
    for (int64_t i = 0; i < count; ++i) {
      const auto begin = logits.begin() + i * decoder.logits_stride();
      all.insert(all.end(), begin, begin + config.vocab_size);
    }
  };
  const auto size = static_cast<int64_t>(tokens.size());
  Segment segment = {&sequence, 0, std::span(tokens).first(static_cast<size_t>(prompt))};
  require_good(decoder.forward({&segment, 1}, 16, Pass::kPrompt));
  add(prompt);
  for (int64_t at = prompt; at < size;) {
    constexpr int64_t kRight = 5;
    const int64_t right = std::min(kRight, size - at);
    std::vector<int32_t> queries(tokens.begin() + at, tokens.begin() + at + right);
    while (queries.size() < 8) queries.push_back(5);
    segment = {&sequence, at, queries};
    require_good(decoder.forward({&segment, 1}, 8, Pass::kVerify));
    add(right);
    at += right;
  }
  return all;
}

struct Agreement {
  double largest = 0;  // difference of two logits
  double typical = 0;  // root mean square of the differences
  int64_t positions = 0;
  int64_t same = 0;     // best token
  int64_t decided = 0;  // positions whose best two logits are further apart than twice the largest difference
  int64_t decided_same = 0;
};

Agreement compare(const std::vector<float>& a, const std::vector<float>& b, int64_t vocab) {
  Agreement result;
  REQUIRE(a.size() == b.size());
  double squares = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    result.largest = std::max(result.largest, std::isnan(difference) ? INFINITY : difference);
    squares += difference * difference;
  }
  result.typical = std::sqrt(squares / static_cast<double>(a.size()));
  const auto width = static_cast<size_t>(vocab);
  for (size_t row = 0; row < a.size() / width; ++row) {
    std::vector<float> x(a.begin() + static_cast<int64_t>(row * width),
                         a.begin() + static_cast<int64_t>((row + 1) * width));
    const std::span<const float> y = std::span(b).subspan(row * width, width);
    const bool same = greedy_token(x) == greedy_token(y);
    std::nth_element(x.begin(), x.begin() + 1, x.end(), std::greater<>());
    const bool decided = static_cast<double>(x[0] - x[1]) > 2 * result.largest;
    ++result.positions;
    result.same += same ? 1 : 0;
    result.decided += decided ? 1 : 0;
    result.decided_same += decided && same ? 1 : 0;
  }
  std::printf("    logits differ by at most %.4f, rms %.5f; best token the same at %d of %d, decided %d\n",
              result.largest, result.typical, static_cast<int>(result.same), static_cast<int>(result.positions),
              static_cast<int>(result.decided));
  return result;
}

ModelConfig wide_config() {
  ModelConfig config = small_config();
  config.vocab_size = 512;
  config.hidden_size = 256;
  config.intermediate_size = 512;
  config.num_attention_heads = 8;
  config.q_lora_rank = 64;
  config.o_groups = 4;
  config.o_lora_rank = 32;
  config.index_topk = 96;  // all groups: what is seen does not hang on the indexer's choice
  config.num_hidden_layers = 3;
  config.compress_ratios = {0, 4, 16};
  return config;
}

// The model with the last bit of half of its BF16 weights turned over: how far its results move shows how much the
// model makes of small differences. Rounding activations to BF16, as GPUs do before each product, is less than half of
// that.
Checkpoint nudged(const Checkpoint& model) {
  Checkpoint other = model;
  base::SplitMix64 random(99);
  for (auto& [name, tensor] : other.tensors) {
    if (tensor.spec.dtype != Dtype::kBf16) continue;
    for (size_t i = 0; i < tensor.bytes.size(); i += 2) tensor.bytes[i] ^= static_cast<char>(random.next() >> 63);
  }
  return other;
}

void check_agreement(const ModelConfig& config) {
  const Checkpoint model = checkpoint_of(config);
  const auto tokens = prompt_of(config, 3, 290);
  const auto cpu = teacher_forced(*cpu_decoder(model).decoder, config, tokens, 230);
  const Agreement yardstick =
      compare(cpu, teacher_forced(*cpu_decoder(nudged(model)).decoder, config, tokens, 230), config.vocab_size);
  const auto made = cuda_decoder(model);
  if (!made) SWEEP_SKIP("no GPU here");
  const auto gpu = teacher_forced(*made->decoder, config, tokens, 230);
  const Agreement agreement = compare(cpu, gpu, config.vocab_size);
  CHECK(agreement.typical < yardstick.typical);
  CHECK(agreement.largest < 2 * yardstick.largest);
  CHECK(agreement.decided_same == agreement.decided);
  CHECK(agreement.same >= yardstick.same - 5);
  // The same bytes again.
  CHECK(teacher_forced(*made->decoder, config, tokens, 230) == gpu);
}

}  // namespace

TEST_CASE("cuda decoder: a library that is not there and a model that cannot be divided are refused") {
  const Checkpoint model = checkpoint_of(small_config());
  auto kernels = KernelLibrary::load({.path = cpu_kernels(), .threads = 1}).value();
  const auto absent = cuda::CudaDecoder::make(model, kernels, {.library = "/nonexistent.so"});
  REQUIRE(!absent.has_value());
  CHECK(absent.error().rule == diag::rule::embedded_no_cuda);
  const auto other = cuda::CudaDecoder::make(model, kernels, {.library = cpu_kernels()});
  REQUIRE(!other.has_value());
  CHECK(contains(other.error().message, "is not this program's"));
  const auto undivided = cuda::CudaDecoder::make(model, kernels, {.library = "/nonexistent.so", .ranks = 3});
  REQUIRE(!undivided.has_value());
  CHECK(undivided.error().rule == diag::rule::embedded_options);
}

TEST_CASE("cuda decoder: logits agree with the CPU's, and are the same in a second run") {
  check_agreement(wide_config());
}

TEST_CASE("cuda decoder: logits agree with the CPU's at odd sizes") {
  check_agreement(small_config());
}

TEST_CASE("cuda decoder: logits agree with the CPU's for every record format and without a window") {
  ModelConfig config = wide_config();
  SECTION("V4.1, FP8") {
    config.kv_layout = "v41_528";
    config.compress_ratios = {0, 2, 1};
    config.index_topk = 320;
  }
  SECTION("V4.1, FP4") {
    config.kv_layout = "v41_fp4_288";
    config.compress_ratios = {0, 2, 1};
    config.index_topk = 320;
  }
  SECTION("V3.2 and GLM") {
    config.kv_layout = "v32_656";
    config.head_dim = 576;
    config.sliding_window = 0;
    config.compress_ratios = {1, 1, 1};
    config.index_topk = 320;
  }
  check_agreement(config);
}

TEST_CASE("cuda decoder: the indexer picks what the CPU's picks, nearly always") {
  ModelConfig config = wide_config();
  config.index_topk = 24;
  config.compress_ratios = {0, 4, 2};
  check_agreement(config);
}

TEST_CASE("cuda decoder: drafts are the CPU's") {
  const ModelConfig config = wide_config();
  const Checkpoint model = checkpoint_of(config);
  const auto made = cuda_decoder(model);
  if (!made) SWEEP_SKIP("no GPU here");
  Made cpu = cpu_decoder(model);
  const auto propose = [&](Decoder& decoder, double temperature, int64_t masked) {
    std::vector<Sequence> sequences(2);
    std::vector<DraftRequest> requests;
    for (size_t i = 0; i < sequences.size(); ++i) {
      sequences[i].blocks = i == 0 ? std::vector<int32_t>{1, 3, 5, 7} : std::vector<int32_t>{0, 2, 4, 6};
      sequences[i].memory = decoder.make_memory();
      const auto tokens = prompt_of(config, 10 + i, 60);
      const Segment segment = {&sequences[i], 0, tokens};
      REQUIRE(decoder.forward({&segment, 1}, 16, Pass::kPrompt).has_value());
      REQUIRE(decoder.remember(sequences[i], decoder.row_of(0, 59)).has_value());
      requests.push_back(
          {&sequences[i], tokens.back(), masked, temperature, std::vector<double>(7, i == 0 ? 0.3 : 0.7)});
    }
    return decoder.draft(requests, 7).value();
  };
  CHECK(propose(*cpu.decoder, 0, 0).tokens == propose(*made->decoder, 0, 0).tokens);
  const Drafts sampled_cpu = propose(*cpu.decoder, 1.0, 3);
  const Drafts sampled = propose(*made->decoder, 1.0, 3);
  REQUIRE(sampled.shares.size() == 14);
  // A sampled draft is that of the same distribution: near its place in the cumulative shares.
  for (size_t i = 0; i < sampled.tokens.size(); ++i) {
    CHECK(sample_token(sampled.shares[i], i < 7 ? 0.3 : 0.7) == sampled.tokens[i]);
    if (i % 7 < 3) CHECK(sampled.shares[i][static_cast<size_t>(config.eos_token_id)] == 0);
  }
  std::printf(
      "    sampled drafts: %d of 14 as on the CPU\n",
      static_cast<int>(std::inner_product(sampled.tokens.begin(), sampled.tokens.end(), sampled_cpu.tokens.begin(),
                                          int64_t{0}, std::plus<>(), std::equal_to<>())));
}

TEST_CASE("cuda decoder: a batch gives each sequence what it gets alone") {
  const ModelConfig config = wide_config();
  const Checkpoint model = checkpoint_of(config);
  const auto made = cuda_decoder(model);
  if (!made) SWEEP_SKIP("no GPU here");
  Decoder& decoder = *made->decoder;
  const std::vector<std::vector<int32_t> > prompts = {prompt_of(config, 21, 70), prompt_of(config, 22, 37),
                                                      prompt_of(config, 23, 5)};
  const std::vector<std::vector<int32_t> > blocks = {{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9, 10, 11}};
  const auto last_logits = [&](const std::vector<size_t>& which) {
    std::vector<Sequence> sequences(which.size());
    std::vector<Segment> segments;
    for (size_t i = 0; i < which.size(); ++i) {
      sequences[i].blocks = blocks[which[i]];
      sequences[i].memory = decoder.make_memory();
      segments.push_back({&sequences[i], 0, prompts[which[i]]});
    }
    REQUIRE(decoder.forward(segments, 16, Pass::kPrompt).has_value());
    std::vector<int64_t> rows;
    for (size_t i = 0; i < which.size(); ++i) {
      rows.push_back(decoder.row_of(i, static_cast<int64_t>(prompts[which[i]].size()) - 1));
    }
    std::vector<float> logits;
    REQUIRE(decoder.logits(rows, logits).has_value());
    return logits;
  };
  const auto together = last_logits({0, 1, 2});
  std::vector<float> apart;
  for (const size_t i : {0U, 1U, 2U}) {
    const auto own = last_logits({i});
    apart.insert(apart.end(), own.begin(), own.end());
  }
  const Agreement agreement = compare(together, apart, config.vocab_size);
  CHECK(agreement.typical < 0.2);
  CHECK(agreement.decided_same == agreement.decided);
}

TEST_CASE("cuda decoder: two GPUs give the tokens of one") {
  const ModelConfig config = wide_config();
  const Checkpoint model = checkpoint_of(config);
  const auto one = cuda_decoder(model);
  const auto two = cuda_decoder(model, 2);
  if (!one || !two) SWEEP_SKIP("fewer than two GPUs here");
  const auto tokens = prompt_of(config, 3, 290);
  const Agreement yardstick =
      compare(teacher_forced(*cpu_decoder(model).decoder, config, tokens, 230),
              teacher_forced(*cpu_decoder(nudged(model)).decoder, config, tokens, 230), config.vocab_size);
  const auto alone = teacher_forced(*one->decoder, config, tokens, 230);
  const auto shared = teacher_forced(*two->decoder, config, tokens, 230);
  const Agreement agreement = compare(alone, shared, config.vocab_size);
  CHECK(agreement.typical < yardstick.typical);
  CHECK(agreement.decided_same == agreement.decided);
  CHECK(teacher_forced(*two->decoder, config, tokens, 230) == shared);
}

TEST_CASE("cuda decoder: a GPU that fails while the other one waits for its sums ends both, with its reason") {
  const ModelConfig config = wide_config();
  const Checkpoint model = checkpoint_of(config);
  if (!cuda_decoder(model, 2)) SWEEP_SKIP("fewer than two GPUs here");
  const std::string good_calls = GENERATE(as<std::string>(), "1", "4");  // it fails in a first pass, or a second one
  const test::EnvironmentVariable library("FLASHMLA_BROKEN_LIBRARY", cuda_kernels());
  const test::EnvironmentVariable fault("FLASHMLA_BROKEN", "refuses-valid");
  const test::EnvironmentVariable after("FLASHMLA_BROKEN_AFTER", good_calls);
  const test::EnvironmentVariable device("FLASHMLA_BROKEN_DEVICE", "1");
  const auto made =
      cuda_decoder(model, 2, from_environment("SWEEPCTL_TEST_BROKEN_KERNELS", SWEEPCTL_TEST_BROKEN_KERNELS));
  REQUIRE(made.has_value());
  Sequence sequence;
  sequence.blocks = {5, 1, 7, 0, 3, 9, 2, 8, 4, 6};
  sequence.memory = made->decoder->make_memory();
  const auto tokens = prompt_of(config, 3, 230);
  const Segment segment = {&sequence, 0, tokens};
  const auto began = std::chrono::steady_clock::now();
  std::string failure;
  for (int pass = 0; pass < 3 && failure.empty(); ++pass) {
    const auto done = made->decoder->forward({&segment, 1}, 16, Pass::kPrompt);
    if (!done) failure = done.error().message;
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  std::printf("    %.2f s: %s\n", took.count(), failure.c_str());
  CHECK(contains(failure, "rank 1 of 2: flashmla_sparse_decode failed"));
  CHECK(took.count() < 20);  // the other one would wait for ever
  const auto again = made->decoder->forward({&segment, 1}, 16, Pass::kPrompt);
  REQUIRE(!again.has_value());
  CHECK(again.error().message == failure);
}

TEST_CASE("cuda decoder: two GPUs give the tokens of one at the dimensions of V4-Flash") {
  if (!cuda_decoder(checkpoint_of(small_config()), 2)) SWEEP_SKIP("fewer than two GPUs here");
  const ModelConfig config = find_model_shape("v4-flash-tp8x2")->config;
  const Checkpoint model = checkpoint_of(config);
  const auto tokens = prompt_of(config, 3, 290);
  std::vector<std::vector<float> > logits;
  for (const int64_t ranks : {1, 2}) {
    const auto made = cuda_decoder(model, ranks);
    REQUIRE(made.has_value());
    logits.push_back(teacher_forced(*made->decoder, config, tokens, 230));
  }
  const Agreement agreement = compare(logits[0], logits[1], config.vocab_size);
  CHECK(agreement.decided_same == agreement.decided);
  CHECK(agreement.same * 100 >= agreement.positions * 95);
}

#endif
