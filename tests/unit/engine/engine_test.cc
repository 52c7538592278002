// The engine as a whole, with the CPU kernels and a model small enough to run thousands of steps.
#include "orchestrator/engine/embedded/engine.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>

#include <cmath>
#include <map>

#include "orchestrator/base/temp_dir.h"
#include "orchestrator/diag/rules/embedded.h"
#include "orchestrator/engine/embedded/cpu/decoder.h"
#include "orchestrator/engine/embedded/make_model.h"
#include "tests/support/catch.h"
#include "tests/unit/engine/small_model.h"

using namespace sweep;
using namespace sweep::engine::embedded;

namespace {

Checkpoint model_of(const ModelConfig& config) {
  auto temp = base::TempDir::create().value();
  MakeModelOptions options;
  options.config = config;
  REQUIRE(make_model(temp.path() / "model", options).has_value());
  return load_checkpoint(temp.path() / "model").value();
}

const Checkpoint& small_model() {
  static const Checkpoint model = model_of(small_config());
  return model;
}

KernelLibrary load_kernels(int threads) {
  return KernelLibrary::load({.path = SWEEPCTL_TEST_KERNELS, .threads = threads}).value();
}

// An engine whose log goes nowhere.
struct Running {
  explicit Running(EngineOptions options)
      : null(::open("/dev/null", O_WRONLY | O_CLOEXEC)),
        log(null.get()),
        kernels(load_kernels(options.threads)),
        decoder(small_model(), kernels,
                {.threads = options.threads,
                 .num_blocks = cache_blocks(options, small_model().config),
                 .positions = positions_needed(options)}),
        engine(small_model().config, decoder, options, log) {}

  base::FileDescriptor null;
  EventLog log;
  KernelLibrary kernels;
  cpu::CpuDecoder decoder;
  Engine engine;
};

EngineOptions options_with(int64_t drafts, double acceptance_length = 0) {
  EngineOptions options;
  options.num_draft_tokens = drafts;
  options.acceptance_length = acceptance_length;
  options.max_num_seqs = 4;
  options.max_model_len = 256;
  options.prefill_tokens = 48;
  return options;
}

std::vector<int32_t> prompt_of(uint64_t seed, int64_t length) {
  base::SplitMix64 random(seed);
  std::vector<int32_t> prompt;
  for (int64_t i = 0; i < length; ++i) prompt.push_back(static_cast<int32_t>(4 + random.below(20)));
  return prompt;
}

GenerationParameters greedy(uint64_t seed, int64_t prompt, int64_t tokens) {
  return {.prompt = prompt_of(seed, prompt), .max_tokens = tokens, .ignore_eos = true};
}

struct Outcome {
  std::vector<int32_t> tokens;
  std::vector<size_t> steps;  // tokens per event
  FinishReason finish = FinishReason::kError;
  std::string error;
};

Outcome collect(TokenStream& stream) {
  Outcome outcome;
  while (true) {
    auto event = stream.pop();
    if (!event) {
      pollfd descriptor = {stream.descriptor(), POLLIN, 0};
      REQUIRE(::poll(&descriptor, 1, 60'000) == 1);
      continue;
    }
    outcome.tokens.insert(outcome.tokens.end(), event->tokens.begin(), event->tokens.end());
    outcome.steps.push_back(event->tokens.size());
    if (!event->finish) continue;
    outcome.finish = *event->finish;
    outcome.error = event->error;
    return outcome;
  }
}

Outcome generate(Engine& engine, GenerationParameters parameters) {
  return collect(*engine.submit(std::move(parameters)));
}

}  // namespace

namespace {

// The CPU's, which fails at one of its forward passes.
class FailingDecoder final : public Decoder {
 public:
  FailingDecoder(cpu::CpuDecoder& real, int64_t good_passes) : real_(real), left_(good_passes) {}

  std::unique_ptr<SequenceMemory> make_memory() override { return real_.make_memory(); }
  diag::Result<diag::Done> forward(std::span<const Segment> segments, int32_t query_tokens, Pass pass) override {
    if (left_-- <= 0) return diag::fail(diag::rule::embedded_device, "rank 1 of 2: an illegal memory access");
    return real_.forward(segments, query_tokens, pass);
  }
  int64_t row_of(size_t segment, int64_t offset) const override { return real_.row_of(segment, offset); }
  diag::Result<diag::Done> logits(std::span<const int64_t> rows, std::vector<float>& logits) override {
    return real_.logits(rows, logits);
  }
  int64_t logits_stride() const override { return real_.logits_stride(); }
  diag::Result<diag::Done> remember(Sequence& sequence, int64_t row) override { return real_.remember(sequence, row); }
  diag::Result<Drafts> draft(std::span<const DraftRequest> requests, int64_t count) override {
    return real_.draft(requests, count);
  }
  std::string device_name() const override { return real_.device_name(); }

 private:
  cpu::CpuDecoder& real_;
  int64_t left_;
};

}  // namespace

TEST_CASE("engine: when the decoder fails, requests of every state get its reason, and so do later ones") {
  const int64_t good_passes = GENERATE(0, 1, 5);  // it fails in a prompt, or while tokens are decoded
  EngineOptions options = options_with(7);
  options.max_num_seqs = 2;
  Running real(options);
  FailingDecoder decoder(real.decoder, good_passes);
  Engine engine(small_model().config, decoder, options, real.log);
  CHECK_FALSE(engine.failure().has_value());
  std::vector<std::shared_ptr<TokenStream>> streams;
  for (uint64_t seed = 0; seed < 4; ++seed) streams.push_back(engine.submit(greedy(seed, 20, 200)));  // two must wait
  for (const auto& stream : streams) {
    const Outcome outcome = collect(*stream);
    CHECK(outcome.finish == FinishReason::kError);
    CHECK(outcome.error == "rank 1 of 2: an illegal memory access");
  }
  REQUIRE(engine.failure().has_value());
  CHECK(engine.failure()->rule == diag::rule::embedded_device);
  CHECK(generate(engine, greedy(9, 20, 5)).error == "rank 1 of 2: an illegal memory access");
  CHECK(engine.metrics().finished_error == 5);
}

TEST_CASE("engine: greedy speculative decoding gives the tokens of plain greedy decoding") {
  Running plain(options_with(0));
  Running speculative(options_with(7));
  Running short_drafts(options_with(3));
  for (uint64_t seed = 0; seed < 6; ++seed) {
    const int64_t prompt = 1 + static_cast<int64_t>(seed) * 23;
    const auto expected = generate(plain.engine, greedy(seed, prompt, 100));
    CHECK(expected.tokens.size() == 100);
    CHECK(generate(speculative.engine, greedy(seed, prompt, 100)).tokens == expected.tokens);
    CHECK(generate(short_drafts.engine, greedy(seed, prompt, 100)).tokens == expected.tokens);
  }
  // The comparison means something only if drafts were both accepted and rejected.
  const MetricValues values = speculative.engine.metrics();
  CHECK(values.accepted_tokens > 0);
  CHECK(values.accepted_tokens < values.draft_tokens);
  CHECK(plain.engine.metrics().drafts == 0);
}

TEST_CASE(
    "engine: a request's tokens depend neither on its neighbours nor on threads nor on the chunks of its prompt") {
  std::vector<std::vector<int32_t>> alone;
  Running single(options_with(7));
  const auto request = [](uint64_t seed) {
    auto parameters = greedy(seed, 20 + static_cast<int64_t>(seed) * 31, 40);
    if (seed % 2 == 1) parameters.temperature = 8.0;
    return parameters;
  };
  for (uint64_t seed = 0; seed < 6; ++seed) alone.push_back(generate(single.engine, request(seed)).tokens);

  auto options = options_with(7);
  options.threads = 3;
  options.prefill_tokens = 17;
  Running together(options);
  std::vector<std::shared_ptr<TokenStream>> streams;
  for (uint64_t seed = 0; seed < 6; ++seed) streams.push_back(together.engine.submit(request(seed)));
  for (size_t i = 0; i < streams.size(); ++i) {
    INFO(i);
    CHECK(collect(*streams[i]).tokens == alone[i]);
  }
}

TEST_CASE("engine: the first event holds one token, each later one the tokens of one step, the last cut to length") {
  Running running(options_with(7, 5.7));
  for (const int64_t tokens : {1, 2, 7, 33}) {
    const auto outcome = generate(running.engine, greedy(1, 10, tokens));
    CHECK(static_cast<int64_t>(outcome.tokens.size()) == tokens);
    CHECK(outcome.finish == FinishReason::kLength);
    REQUIRE(!outcome.steps.empty());
    CHECK(outcome.steps[0] == 1);
    for (size_t i = 1; i + 1 < outcome.steps.size(); ++i) CHECK((outcome.steps[i] == 5 || outcome.steps[i] == 6));
  }
}

TEST_CASE("engine: an explicit acceptance length is realised and counted before the last step is cut") {
  Running running(options_with(7, 5.7));
  std::vector<std::shared_ptr<TokenStream>> streams;
  for (uint64_t seed = 0; seed < 30; ++seed) streams.push_back(running.engine.submit(greedy(seed, 9, 200)));
  for (const auto& stream : streams) CHECK(collect(*stream).tokens.size() == 200);
  const MetricValues values = running.engine.metrics();
  const double length = 1 + static_cast<double>(values.accepted_tokens) / static_cast<double>(values.drafts);
  CHECK(length == Approx(5.7).margin(4 * std::sqrt(0.21 / static_cast<double>(values.drafts))));
  CHECK(values.draft_tokens == 7 * values.drafts);
  CHECK(values.accepted_at[3] == values.drafts);
  CHECK(values.accepted_at[5] == 0);
  CHECK(values.generation_tokens == 30 * 200);
  CHECK(values.prompt_tokens == 30 * 9);
  CHECK(values.finished_length == 30);
  CHECK(values.running == 0);
  CHECK(values.kv_usage == 0);
}

TEST_CASE("engine: explicit acceptance at its ends accepts nothing and everything") {
  Running none(options_with(7, 1.0));
  CHECK(generate(none.engine, greedy(1, 5, 20)).steps == std::vector<size_t>(20, 1));
  Running all(options_with(7, 8.0));
  CHECK(generate(all.engine, greedy(1, 5, 25)).steps == std::vector<size_t>{1, 8, 8, 8});
}

TEST_CASE("decoder: a window layer forgets what lies outside, a compressed layer sees groups that ended before") {
  // Logits after the last of 40 tokens, with one token changed or not.
  const auto logits_after = [](int64_t ratio, int64_t changed) {
    ModelConfig config = small_config();
    config.num_hidden_layers = 1;
    config.compress_ratios = {ratio};
    config.dspark_target_layer_ids = {0};
    config.index_topk = 16;  // all groups: what is seen does not hang on the indexer's choice
    const Checkpoint model = model_of(config);
    auto kernels = load_kernels(1);
    cpu::CpuDecoder decoder(model, kernels, {.threads = 1, .num_blocks = 2, .positions = 64});
    Sequence sequence = {.blocks = {1, 0}, .memory = decoder.make_memory()};
    auto tokens = prompt_of(1, 40);
    if (changed >= 0) tokens[static_cast<size_t>(changed)] ^= 1;
    const Segment segment = {&sequence, 0, tokens};
    REQUIRE(decoder.forward({&segment, 1}, 8, Pass::kPrompt).has_value());
    const int64_t row = decoder.row_of(0, 39);
    std::vector<float> logits;
    REQUIRE(decoder.logits({&row, 1}, logits).has_value());
    return logits;
  };
  // The window of 16 reaches from position 24 to 39.
  const auto window_only = logits_after(0, -1);
  CHECK(logits_after(0, 23) == window_only);
  CHECK(logits_after(0, 24) != window_only);
  CHECK(logits_after(0, 38) != window_only);
  const auto compressed = logits_after(4, -1);
  CHECK(compressed != window_only);
  for (const int64_t changed : {0, 3, 4, 23}) CHECK(logits_after(4, changed) != compressed);
}

TEST_CASE("decoder: without a window a query sees all tokens up to its own, in every record format") {
  for (const KvLayout& layout : kKvLayouts) {
    INFO(layout.name);
    ModelConfig config = small_config();
    config.kv_layout = layout.name;
    config.head_dim = layout.head_dim;
    config.sliding_window = 0;
    config.num_hidden_layers = 1;
    config.compress_ratios = {1};
    config.dspark_target_layer_ids = {0};
    config.index_topk = 64;
    const Checkpoint model = model_of(config);
    auto kernels = load_kernels(1);
    cpu::CpuDecoder decoder(model, kernels, {.threads = 1, .num_blocks = 2, .positions = 64});
    const auto logits_after = [&](size_t changed, int64_t at) {
      Sequence sequence = {.blocks = {1, 0}, .memory = decoder.make_memory()};
      auto tokens = prompt_of(1, 40);
      if (changed < tokens.size()) tokens[changed] ^= 1;
      const Segment segment = {&sequence, 0, tokens};
      REQUIRE(decoder.forward({&segment, 1}, 8, Pass::kPrompt).has_value());
      const int64_t row = decoder.row_of(0, at);
      std::vector<float> logits;
      REQUIRE(decoder.logits({&row, 1}, logits).has_value());
      return logits;
    };
    const auto unchanged = logits_after(99, 30);
    CHECK(logits_after(31, 30) == unchanged);
    for (const size_t changed : {0U, 17U, 29U, 30U}) CHECK(logits_after(changed, 30) != unchanged);
    // Its own token alone, at the beginning: attention over one record.
    CHECK(std::isfinite(logits_after(99, 0)[0]));
  }
}

TEST_CASE("decoder: what comes later changes nothing, and rejected tokens leave nothing behind") {
  auto kernels = load_kernels(1);
  cpu::CpuDecoder decoder(small_model(), kernels, {.threads = 1, .num_blocks = 4, .positions = 128});
  const auto tokens = prompt_of(2, 80);
  std::vector<float> whole;
  Sequence first = {.blocks = {0, 1, 2}, .memory = decoder.make_memory()};
  Segment segment = {&first, 0, tokens};
  REQUIRE(decoder.forward({&segment, 1}, 16, Pass::kPrompt).has_value());
  std::vector<int64_t> rows(tokens.size());
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = decoder.row_of(0, static_cast<int64_t>(i));
  REQUIRE(decoder.logits(rows, whole).has_value());

  // One token at a time, each run twice with a wrong token in between, as after a rejected draft.
  Sequence second = {.blocks = {2, 0, 1}, .memory = decoder.make_memory()};
  for (size_t i = 0; i < tokens.size(); ++i) {
    const std::vector<int32_t> wrong = {tokens[i], 4 + (tokens[i] - 3) % 20, 5, 6, 7};
    segment = {&second, static_cast<int64_t>(i), wrong};
    REQUIRE(decoder.forward({&segment, 1}, 5, Pass::kPrompt).has_value());
    segment = {&second, static_cast<int64_t>(i), std::span(tokens).subspan(i, 1)};
    REQUIRE(decoder.forward({&segment, 1}, 1, Pass::kPrompt).has_value());
    const int64_t row = decoder.row_of(0, 0);
    std::vector<float> logits;
    REQUIRE(decoder.logits({&row, 1}, logits).has_value());
    const auto begin = whole.begin() + static_cast<int64_t>(i) * decoder.logits_stride();
    CHECK(std::equal(logits.begin(), logits.end(), begin));
  }
}

TEST_CASE("engine: measured sampling has the distribution of plain sampling") {
  // Pairs of the second and third token after one prompt; the first comes from the prompt in both ways of decoding.
  constexpr int kRequests = 3000;
  const auto count = [&](int64_t drafts, uint64_t first_seed) {
    Running running(options_with(drafts));
    std::map<std::pair<int32_t, int32_t>, double> counts;
    for (int start = 0; start < kRequests; start += 100) {
      std::vector<std::shared_ptr<TokenStream>> streams;
      for (int i = start; i < start + 100; ++i) {
        GenerationParameters parameters = greedy(5, 3, 3);
        parameters.temperature = 14.0;
        parameters.seed = first_seed + static_cast<uint64_t>(i);
        streams.push_back(running.engine.submit(parameters));
      }
      for (const auto& stream : streams) {
        const auto tokens = collect(*stream).tokens;
        ++counts[{tokens.at(1), tokens.at(2)}];
      }
    }
    return counts;
  };
  const auto plain = count(0, 0);
  const auto speculative = count(7, 1'000'000);
  // Two-sample chi-square; rare pairs share one cell.
  double statistic = 0;
  int cells = 0;
  double rest_plain = 0;
  double rest_speculative = 0;
  std::map<std::pair<int32_t, int32_t>, std::pair<double, double>> joined;
  for (const auto& [pair, n] : plain) joined[pair].first = n;
  for (const auto& [pair, n] : speculative) joined[pair].second = n;
  const auto add = [&](double a, double b) {
    if (a + b == 0) return;
    statistic += (a - b) * (a - b) / (a + b);
    ++cells;
  };
  for (const auto& [pair, n] : joined) {
    if (n.first + n.second < 20) {
      rest_plain += n.first;
      rest_speculative += n.second;
    } else {
      add(n.first, n.second);
    }
  }
  add(rest_plain, rest_speculative);
  INFO(statistic << " over " << cells << " cells");
  REQUIRE(cells > 30);
  // Mean cells - 1, deviation sqrt(2 (cells - 1)): four deviations.
  CHECK(statistic < cells - 1 + 4 * std::sqrt(2.0 * (cells - 1)));
}

TEST_CASE("engine: generation stops at the end token unless told otherwise, never before min_tokens") {
  Running running(options_with(7));
  GenerationParameters parameters = greedy(3, 8, 200);
  parameters.temperature = 14.0;
  parameters.ignore_eos = false;
  const int32_t eos = static_cast<int32_t>(small_model().config.eos_token_id);
  bool stopped_early = false;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    parameters.seed = seed;
    for (const int64_t least : {0, 50, 200}) {
      parameters.min_tokens = least;
      const auto outcome = generate(running.engine, parameters);
      const auto size = static_cast<int64_t>(outcome.tokens.size());
      const auto found = std::find(outcome.tokens.begin(), outcome.tokens.end(), eos);
      if (outcome.finish == FinishReason::kStop) {
        CHECK(found == outcome.tokens.end() - 1);
        CHECK(size > least);
        stopped_early = stopped_early || size < 50;
      } else {
        CHECK(found == outcome.tokens.end());
        CHECK(size == 200);
      }
    }
  }
  CHECK(stopped_early);
  CHECK(running.engine.metrics().finished_stop > 0);
}

TEST_CASE("engine: explicit acceptance respects min_tokens too") {
  Running running(options_with(7, 5.0));
  GenerationParameters parameters = greedy(3, 8, 60);
  parameters.temperature = 30.0;
  parameters.ignore_eos = false;
  parameters.min_tokens = 60;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    parameters.seed = seed;
    CHECK(generate(running.engine, parameters).finish == FinishReason::kLength);
  }
}

TEST_CASE("engine: requests wait while the cache is full and all finish") {
  auto options = options_with(7);
  options.max_model_len = 200;
  options.kv_blocks = 7;  // one request of 200 tokens, or two small ones
  Running running(options);
  std::vector<std::shared_ptr<TokenStream>> streams;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    streams.push_back(running.engine.submit(greedy(seed, seed % 2 == 0 ? 150 : 30, 40)));
  }
  for (const auto& stream : streams) CHECK(collect(*stream).tokens.size() == 40);
  CHECK(running.engine.metrics().kv_usage == 0);
  CHECK(running.engine.metrics().waiting == 0);
}

TEST_CASE("engine: a cancelled request gives its place and its blocks to the next") {
  auto options = options_with(7);
  options.max_num_seqs = 1;
  Running running(options);
  const auto first = running.engine.submit(greedy(1, 10, 240));
  const auto waiting = running.engine.submit(greedy(2, 10, 240));
  const auto last = running.engine.submit(greedy(3, 10, 5));
  waiting->cancel();
  first->cancel();
  CHECK(collect(*last).tokens.size() == 5);
  const MetricValues values = running.engine.metrics();
  CHECK(values.finished_length >= 1);  // the first may have run to its end before the cancel was seen
  CHECK(values.finished_length + values.finished_abort == 3);
  CHECK(values.finished_abort >= 1);
  CHECK(values.kv_usage == 0);
}

TEST_CASE("engine: stopping does not wait for unfinished requests") {
  auto running = std::make_unique<Running>(options_with(7));
  std::vector<std::shared_ptr<TokenStream>> streams;
  for (uint64_t seed = 0; seed < 10; ++seed) streams.push_back(running->engine.submit(greedy(seed, 10, 240)));
  running.reset();
  CHECK(streams.size() == 10);
}

TEST_CASE("engine: options that do not fit the model are named") {
  const ModelConfig config = small_config();
  const auto problem = [&](auto change) {
    EngineOptions options = options_with(7);
    change(options);
    return options_problem(options, config);
  };
  CHECK(problem([](EngineOptions&) {}).empty());
  CHECK(problem([](EngineOptions& o) { o.acceptance_length = 8.0; }).empty());
  CHECK(contains(problem([](EngineOptions& o) { o.acceptance_length = 9.0; }), "outside 1 to 8"));
  CHECK(contains(problem([](EngineOptions& o) { o.acceptance_length = 0.5; }), "outside 1 to 8"));
  CHECK(contains(problem([](EngineOptions& o) { o.acceptance_length = NAN; }), "outside 1 to 8"));
  CHECK(contains(problem([](EngineOptions& o) {
                   o.num_draft_tokens = 0;
                   o.acceptance_length = 1.0;
                 }),
                 "needs draft tokens"));
  CHECK(contains(problem([](EngineOptions& o) { o.num_draft_tokens = 8; }), "0 to 7"));
  CHECK(contains(problem([](EngineOptions& o) { o.max_model_len = 513; }), "512"));
  CHECK(contains(problem([](EngineOptions& o) { o.max_num_seqs = 0; }), "1 to 1024"));
  CHECK(contains(problem([](EngineOptions& o) { o.threads = 0; }), "threads"));
  CHECK(contains(problem([](EngineOptions& o) { o.kv_blocks = 2; }), "blocks"));
}

TEST_CASE("kernel library: what cannot be used is refused with the path and the reason") {
  const auto problem = [](const std::string& path) {
    const auto loaded = KernelLibrary::load({.path = path});
    CHECK(!loaded.has_value());
    if (loaded.has_value()) return std::string();
    CHECK(loaded.error().rule == diag::rule::embedded_kernel_library);
    return loaded.error().message;
  };
  CHECK(contains(problem("/nonexistent/lib.so"), "/nonexistent/lib.so"));
  auto temp = base::TempDir::create().value();
  REQUIRE(base::write_file_atomic(temp.path() / "text.so", "not a library").has_value());
  CHECK(contains(problem(temp.path() / "text.so"), "cannot load"));
  CHECK(contains(problem(temp.path()), "directory"));
}

TEST_CASE("kernel library: a refused call carries the library's own message") {
  auto kernels = load_kernels(1);
  CHECK(kernels.sha256().size() == 64);
  CHECK(std::string(kernels.build().arch) == "cpu");
  flashmla_sparse_decode_params params = {};
  params.batch = 1;
  const auto refused = kernels.sparse_decode(params);
  REQUIRE(!refused.has_value());
  CHECK(refused.error().rule == diag::rule::embedded_kernel_failed);
  CHECK(contains(refused.error().message, "flashmla_sparse_decode"));
}
