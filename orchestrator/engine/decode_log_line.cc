#include "orchestrator/engine/decode_log_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "orchestrator/base/json_nesting.h"
#include "orchestrator/base/utf8.h"
#include "orchestrator/engine/spec_counters.h"

namespace sweep::engine {

namespace {

constexpr int64_t kMostTokens = int64_t{1} << 40;
constexpr int64_t kLastUnixNs = int64_t{7'289'654'400} * 1'000'000'000;  // the beginning of 2201

// What the libraries below the engines say when they build a kernel or a graph on demand. DeepGEMM, FlashInfer,
// TileLang, Triton, torch.compile, CUDA graphs of SGLang and vLLM, PyTorch extensions.
constexpr std::array<std::string_view, 17> kCompilation{"JIT code generation",
                                                        "JIT Pre-Compile",
                                                        "JIT compil",
                                                        "Loading JIT ops",
                                                        "JIT module",
                                                        "begins to compile kernel",
                                                        "Compiling kernel",
                                                        "Compiling a graph",
                                                        "torch.compile took",
                                                        "Triton autotuning",
                                                        "Start autotuning",
                                                        "Autotuning process starts",
                                                        "Capture cuda graph begin",
                                                        "Capturing CUDA graph",
                                                        "Capturing batches",
                                                        "Building extension module",
                                                        "ninja: "};
// PyTorch's allocator, CUDA and HIP, vLLM's and SGLang's sizing of the KV cache, the bundled engine, the kernel of the
// system.
constexpr std::array<std::string_view, 10> kOutOfMemory{"CUDA out of memory",
                                                        "cudaMalloc failed: out of memory",
                                                        "HIP out of memory",
                                                        "OutOfMemoryError",
                                                        "cudaErrorMemoryAllocation",
                                                        "CUDA_ERROR_OUT_OF_MEMORY",
                                                        "CUDA error: out of memory",
                                                        "Not enough memory. Please try to increase",
                                                        "No available memory for the cache blocks",
                                                        "std::bad_alloc"};
constexpr std::array<std::string_view, 3> kPortTaken{"ddress already in use", "EADDRINUSE",
                                                     "error while attempting to bind on address"};
constexpr std::array<std::string_view, 8> kDevice{
    "CUDA error",      "HIP error",         "illegal memory access", "NCCL error", "NCCL WARN Cuda failure",
    "cudaErrorLaunch", "CUDA driver error", "embedded/device"};
// The last two are the bundled engine's.
constexpr std::array<std::string_view, 5> kOther{"Traceback (most recent call last)", "Scheduler hit an exception",
                                                 "EngineDeadError", "{\"event\":\"error\"", "[embedded/"};
constexpr std::array<std::string_view, 3> kReady{"The server is fired up and ready to roll",
                                                 "Application startup complete", "Uvicorn running on"};

bool has_any(std::string_view line, const auto& parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](std::string_view part) { return line.find(part) != std::string_view::npos; });
}

// What follows `key`; nothing if it is not there.
std::optional<std::string_view> behind(std::string_view line, std::string_view key) {
  const size_t at = line.find(key);
  if (at == std::string_view::npos) return std::nullopt;
  return line.substr(at + key.size());
}

template <class Number>
std::optional<Number> leading(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  // "5.6.7" and "5x" are no numbers: what follows one is punctuation or a blank.
  if (error != std::errc()) return std::nullopt;
  const auto used = static_cast<size_t>(end - text.data());
  if (used < text.size() && std::string_view(", %])\r\t").find(text[used]) == std::string_view::npos)
    return std::nullopt;
  return value;
}

std::optional<int64_t> count_behind(std::string_view line, std::string_view key) {
  const auto rest = behind(line, key);
  const auto count = rest ? leading<int64_t>(*rest) : std::nullopt;
  return count && *count >= 0 && *count <= kMostTokens ? count : std::nullopt;
}

std::optional<double> number_behind(std::string_view line, std::string_view key) {
  const auto rest = behind(line, key);
  return rest ? leading<double>(*rest) : std::nullopt;
}

bool can_be_a_length(double length) {
  return length >= 1 && length <= kLongestAcceptance;  // false for NaN
}

void parse_sglang(std::string_view line, ParsedLine& parsed) {
  if (const auto arguments = behind(line, "server_args=")) {
    parsed.draft_tokens = count_behind(*arguments, "speculative_dspark_block_size=");
    if (!parsed.draft_tokens) parsed.draft_tokens = count_behind(*arguments, "speculative_num_steps=");
    parsed.steps_per_window = count_behind(*arguments, "decode_log_interval=");
    return;
  }
  if (line.find("Prefill batch") != std::string_view::npos) {
    parsed.new_tokens = count_behind(line, "#new-token: ");
    parsed.cached_tokens = count_behind(line, "#cached-token: ");
    return;
  }
  // Without speculative decoding the line has no acceptance length.
  if (line.find("Decode batch") == std::string_view::npos || !behind(line, ", accept len: ")) return;
  const auto length = number_behind(line, ", accept len: ");
  if (!length || !can_be_a_length(*length)) {
    parsed.problem = "a decode line whose \"accept len\" is no acceptance length";
    return;
  }
  parsed.window = DecodeWindow{.acceptance_length = *length};
}

std::vector<double> numbers_in_list(std::string_view text) {
  std::vector<double> numbers;
  while (numbers.size() <= kMostPositions) {
    const auto number = leading<double>(text);
    if (!number) break;
    numbers.push_back(*number);
    const size_t comma = text.find(", ");
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 2);
  }
  return numbers;
}

void parse_vllm(std::string_view line, ParsedLine& parsed) {
  parsed.draft_tokens = count_behind(line, "num_spec_tokens=");
  const auto metrics = behind(line, "SpecDecoding metrics: ");
  if (!metrics || !behind(*metrics, "Mean acceptance length: ")) return;
  DecodeWindow window;
  const auto printed = number_behind(*metrics, "Mean acceptance length: ");
  window.accepted = count_behind(*metrics, "Accepted: ");
  window.drafted = count_behind(*metrics, "Drafted: ");
  if (const auto rates = behind(*metrics, "Per-position acceptance rate: "))
    window.per_position = numbers_in_list(*rates);
  if (window.drafted == 0) return;  // an idle interval
  const auto positions = static_cast<int64_t>(window.per_position.size());
  const bool rates_good = std::all_of(window.per_position.begin(), window.per_position.end(),
                                      [](double rate) { return rate >= 0 && rate <= 1; });
  if (!printed || !can_be_a_length(*printed) || !rates_good || positions > static_cast<int64_t>(kMostPositions)) {
    parsed.problem = "a line of speculative decoding metrics whose figures cannot be";
    return;
  }
  window.acceptance_length = *printed;
  if (positions > 0 && window.accepted && window.drafted && *window.drafted % positions == 0) {
    window.steps = *window.drafted / positions;
    // Two decimals are coarser than the counts.
    const double exact = 1.0 + static_cast<double>(*window.accepted) / static_cast<double>(*window.steps);
    constexpr double kPrinted = 0.0051;
    if (std::abs(exact - *printed) > kPrinted) {
      parsed.problem =
          fmt::format("counts that give an acceptance length of {:.3f}, where {:.2f} is printed", exact, *printed);
      return;
    }
    window.acceptance_length = exact;
  }
  parsed.window = std::move(window);
}

void parse_atom(std::string_view line, ParsedLine& parsed) {
  const auto forced = behind(line, "Forced speculative acceptance ON: mean acceptance length ");
  if (!forced) return;
  parsed.forced_length = leading<double>(*forced);
  if (const auto over = behind(*forced, " over ")) parsed.draft_tokens = leading<int64_t>(*over);
}

void parse_embedded(std::string_view line, ParsedLine& parsed) {
  if (line.find("decode_window") == std::string_view::npos || base::json_nesting(line) > base::kDeepestJson) return;
  const auto json = nlohmann::json::parse(line, nullptr, false);
  if (!json.is_object()) return;
  const auto event = json.find("event");
  if (event == json.end() || *event != "decode_window") return;
  const auto number = [&json](const char* key) -> std::optional<int64_t> {
    const auto found = json.find(key);
    if (found == json.end() || !found->is_number_integer()) return std::nullopt;
    return found->get<int64_t>();
  };
  DecodeWindow window{.begin_ns = number("unix_ns_begin"),
                      .end_ns = number("unix_ns_end"),
                      .steps = number("steps"),
                      .accepted = number("accepted")};
  if (!window.begin_ns || !window.end_ns || *window.begin_ns < 0 || *window.end_ns < *window.begin_ns ||
      *window.end_ns > kLastUnixNs || window.steps.value_or(0) <= 0 || *window.steps > kMostTokens ||
      window.accepted.value_or(-1) < 0 || *window.accepted > *window.steps * static_cast<int64_t>(kMostPositions)) {
    parsed.problem = "a decode window whose figures cannot be";
    return;
  }
  window.acceptance_length = 1.0 + static_cast<double>(*window.accepted) / static_cast<double>(*window.steps);
  parsed.time = log_time_of_unix(*window.end_ns);
  parsed.window = std::move(window);
}

}  // namespace

ParsedLine parse_log_line(std::string_view line, std::string_view engine) {
  ParsedLine parsed;
  if (engine == "sglang") parse_sglang(line, parsed);
  if (engine == "vllm") parse_vllm(line, parsed);
  if (engine == "atom") parse_atom(line, parsed);
  if (engine == "embedded") parse_embedded(line, parsed);
  if (!parsed.time) parsed.time = time_in_line(line);
  return parsed;
}

std::string printable(std::string_view line) {
  constexpr size_t kMostShown = 160;
  std::string text = base::valid_utf8(line.substr(0, kMostShown));
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  return line.size() > kMostShown ? text + "..." : text;
}

bool tells_of_compilation(std::string_view line) {
  // The end of a build whose beginning has a line of its own.
  return has_any(line, kCompilation) && line.find("Finished loading JIT ops") == std::string_view::npos;
}

bool tells_of_an_error(std::string_view line) {
  return trouble_in(line).has_value();
}

std::optional<Trouble> trouble_in(std::string_view line) {
  if (has_any(line, kOutOfMemory)) return Trouble::kOutOfMemory;
  if (has_any(line, kPortTaken)) return Trouble::kPortTaken;
  if (has_any(line, kDevice)) return Trouble::kDevice;
  if (has_any(line, kOther)) return Trouble::kOther;
  return std::nullopt;
}

bool tells_of_readiness(std::string_view line) {
  return has_any(line, kReady);
}

}  // namespace sweep::engine
