#include "kernels/bench/options.h"

#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "kernels/bench/shapes.h"

namespace flashmla::bench {

const char* const kUsage =
    "usage: flashmla-bench [--shape NAME] [--threads N] [--repeats N] [--no-reference] [--json FILE]\n"
    "       flashmla-bench --library LIB --plain-read CUBIN [options]\n"
    "\n"
    "The first form times the CPU backend: median time of sparse decode at an engine's shapes and GFLOP/s (score and\n"
    "value products only). What a core does is taken from processor time, so that other processes disturb it little:\n"
    "its rate, the share of the multiply-add peak measured in this run, and how much faster than the plain C++\n"
    "reference it is.\n"
    "\n"
    "The second form times a CUDA library: microseconds a call in graph replays, cold (disjoint KV pools of more than\n"
    "220 MB in turn) and warm, beside a kernel that only reads the same bytes and beside upstream's recorded times.\n"
    "\n"
    "  --library LIB      libflashmla-ARCH.so\n"
    "  --plain-read FILE  flashmla-plain-read-ARCH.cubin\n"
    "  --json FILE        where the figures go\n"
    "  --section S,...    A: V4 128+512, 128+1024; B: V3.2 2048; C: dense; F: V4 window and small extra sets;\n"
    "                     N: V4.1; transition: native against padded heads by query rows. Default: A,B,F,C\n"
    "  --shape TEXT       the shape of that name, or all with TEXT in their names\n"
    "  --heads N,...      instead of the heads a section has by default\n"
    "  --replays N        of each graph; default 7\n"
    "  --quick            a few shapes of each section\n"
    "  --baseline LIB     libflashmla-ARCH-padded64.so, for the transition\n"
    "  --plot FILE.svg    of the transition\n"
    "\n"
    "exit status: 0 measured, 3 could not run or not all was measured, 2 wrong usage\n";

namespace {

bool parse_count(const std::string& text, int32_t highest, int32_t& count) {
  if (text.empty() || text.size() > 9) return false;
  for (const char c : text) {
    if (c < '0' || c > '9') return false;
  }
  count = std::atoi(text.c_str());
  return count >= 1 && count <= highest;
}

std::string parse_number(const std::string& name, const std::string& value, int32_t highest, int32_t& number) {
  if (parse_count(value, highest, number)) return {};
  return name + " is \"" + value + "\", expected 1 to " + std::to_string(highest);
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == ',') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

std::string parse_heads(const std::string& text, std::vector<int32_t>& heads) {
  for (const std::string& part : split(text)) {
    int32_t count = 0;
    if (!parse_count(part, FLASHMLA_MAX_HEADS, count)) {
      return "--heads is \"" + text + "\", expected numbers of 1 to 128 with commas between them";
    }
    heads.push_back(count);
  }
  return {};
}

std::string parse_sections(const std::string& text, DeviceOptions& options) {
  options.shapes = false;
  for (const std::string& part : split(text)) {
    if (part == "transition") {
      options.transition = true;
    } else if (part.size() == 1 && std::strchr("ABCFN", part[0]) != nullptr) {
      options.shapes = true;
      options.filter.sections += part;
    } else {
      return "--section is \"" + text + "\", expected A, B, C, F, N or transition, with commas between them";
    }
  }
  return {};
}

using Texts = std::vector<std::pair<const char*, std::string*>>;

bool take_text(const Texts& texts, const std::string& name, const std::string& value) {
  for (const auto& [option, place] : texts) {
    if (name != option) continue;
    *place = value;
    return true;
  }
  return false;
}

std::string parse_device_option(const std::string& name, const std::string& value, DeviceOptions& options) {
  const Texts texts = {
      {"--library", &options.library}, {"--baseline", &options.baseline}, {"--plain-read", &options.plain_read},
      {"--json", &options.json},       {"--plot", &options.plot},         {"--shape", &options.filter.part_of_name}};
  if (take_text(texts, name, value)) return {};
  if (name == "--section") return parse_sections(value, options);
  if (name == "--heads") return parse_heads(value, options.filter.heads);
  if (name == "--replays") return parse_number(name, value, 1000, options.replays);
  return "unknown option \"" + name + "\"";
}

std::string parse_cpu_option(const std::string& name, const std::string& value, CpuOptions& options) {
  if (take_text({{"--shape", &options.shape}, {"--json", &options.json}}, name, value)) return {};
  if (name == "--threads") return parse_number(name, value, 1024, options.threads);
  if (name == "--repeats") return parse_number(name, value, 1'000'000, options.repeats);
  return "unknown option \"" + name + "\"";
}

// All "--name value"; `flag` stands alone.
template <typename Into>
std::string parse_all(const std::vector<std::string>& arguments, const char* flag, bool& flag_given, Into& options,
                      std::string (*parse_option)(const std::string&, const std::string&, Into&)) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == flag) {
      flag_given = true;
      continue;
    }
    if (i + 1 == arguments.size()) return "\"" + arguments[i] + "\" expects a value, or is no option";
    const std::string& name = arguments[i++];
    std::string error = parse_option(name, arguments[i], options);
    if (!error.empty()) return error;
  }
  return {};
}

Options parse_device(const std::vector<std::string>& arguments) {
  DeviceOptions options;
  const std::string error = parse_all(arguments, "--quick", options.filter.quick, options, parse_device_option);
  if (!error.empty()) return BadOptions{error};
  if (options.library.empty() || options.plain_read.empty()) return BadOptions{"--library and --plain-read are needed"};
  if (options.shapes && device_shapes(options.filter).empty()) {
    return BadOptions{"no shape of these sections is called \"" + options.filter.part_of_name + "\""};
  }
  return options;
}

Options parse_cpu(const std::vector<std::string>& arguments) {
  CpuOptions options;
  bool no_reference = false;
  const std::string error = parse_all(arguments, "--no-reference", no_reference, options, parse_cpu_option);
  if (!error.empty()) return BadOptions{error};
  options.reference = !no_reference;
  const std::vector<Shape> all = shapes();
  const bool known = std::any_of(all.begin(), all.end(), [&](const Shape& one) { return one.name == options.shape; });
  if (!options.shape.empty() && !known) return BadOptions{"there is no shape \"" + options.shape + "\""};
  return options;
}

}  // namespace

Options parse_options(int argc, const char* const* argv) {
  const std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  const auto given = [&](const char* name) {
    return std::find(arguments.begin(), arguments.end(), name) != arguments.end();
  };
  if (given("--help") || given("-h")) return HelpOptions{};
  return given("--library") ? parse_device(arguments) : parse_cpu(arguments);
}

}  // namespace flashmla::bench
