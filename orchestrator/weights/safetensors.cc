#include "orchestrator/weights/safetensors.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

#include "orchestrator/base/file.h"
#include "orchestrator/diag/rules/weights.h"
#include "orchestrator/weights/shard_header.h"

namespace sweep::weights {

namespace {

using nlohmann::json;

constexpr size_t kLengthBytes = 8;
constexpr uint64_t kLargestHeader = 100'000'000;  // the format's own limit
constexpr size_t kShownBytes = 40;
constexpr size_t kMostNameBytes = 200;
constexpr size_t kMostExtents = 16;
constexpr size_t kMostProblems = 20;  // of one header; a hostile one could have millions

struct Dtype {
  std::string_view name;
  uint64_t bits;
};
// safetensors/src/tensor.rs, enum Dtype.
constexpr auto kDtypes = std::to_array<Dtype>(
    {{"BOOL", 8},    {"U8", 8},      {"I8", 8},   {"F4", 4},   {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"F8_E5M2", 8},
     {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"I16", 16}, {"U16", 16}, {"F16", 16},    {"BF16", 16},   {"I32", 32},
     {"U32", 32},    {"F32", 32},    {"C64", 64}, {"F64", 64}, {"I64", 64},    {"U64", 64}});

// The checks of one header. Of many problems the first few are told.
class HeaderCheck {
 public:
  HeaderCheck(const std::string& name, diag::Diagnostics& diagnostics) : name_(name), diagnostics_(diagnostics) {}
  HeaderCheck(const HeaderCheck&) = delete;
  HeaderCheck& operator=(const HeaderCheck&) = delete;
  ~HeaderCheck() {
    if (problems_ > kMostProblems)
      report(diag::rule::weights_header_malformed, fmt::format("{} more problems", problems_ - kMostProblems));
  }

  void malformed(const std::string& message) { add(diag::rule::weights_header_malformed, message); }
  // Whether the tensor has a place in the file.
  bool tensor(const HeaderTensor& tensor);
  void layout(std::vector<HeaderTensor>& tensors, uint64_t data_bytes);

 private:
  void add(diag::RuleId rule, const std::string& message) {
    if (++problems_ <= kMostProblems) report(rule, message);
  }
  void report(diag::RuleId rule, const std::string& message) {
    diag::Diagnostic diagnostic = diag::make(rule, fmt::format("\"{}\": {}", name_, message));
    diagnostic.path = name_;
    diagnostics_.add(std::move(diagnostic));
  }

  const std::string& name_;
  diag::Diagnostics& diagnostics_;
  size_t problems_ = 0;
};

// Names and shapes come from the file and may be of any length.
std::string cut(std::string_view name) {
  return name.size() <= kMostNameBytes ? std::string(name) : fmt::format("{}...", name.substr(0, kMostNameBytes));
}

std::string shape_text(const std::vector<uint64_t>& shape) {
  if (shape.size() > kMostExtents) return fmt::format("of {} extents", shape.size());
  return fmt::format("[{}]", fmt::join(shape, ","));
}

std::optional<uint64_t> product(const std::vector<uint64_t>& shape) {
  uint64_t result = 1;
  for (const uint64_t extent : shape)
    if (__builtin_mul_overflow(result, extent, &result)) return std::nullopt;
  return result;
}

bool HeaderCheck::tensor(const HeaderTensor& tensor) {
  if (!tensor.has_fields) {
    malformed(fmt::format("tensor \"{}\" lacks a proper dtype, shape or data_offsets", cut(tensor.name)));
    return false;
  }
  if (tensor.end < tensor.begin) {
    malformed(fmt::format("tensor \"{}\" ends at {}, before its begin {}", cut(tensor.name), tensor.end, tensor.begin));
    return false;
  }
  const auto count = tensor.natural_shape ? product(tensor.shape) : std::nullopt;
  const auto bits = dtype_bits(tensor.dtype);
  const uint64_t bytes = tensor.end - tensor.begin;
  uint64_t total_bits = 0;
  if (!count || __builtin_mul_overflow(*count, bits.value_or(1), &total_bits))
    malformed(fmt::format("tensor \"{}\" has an impossible shape", cut(tensor.name)));
  else if (!bits)
    add(diag::rule::weights_unknown_dtype,
        fmt::format("tensor \"{}\" has type \"{}\"", cut(tensor.name), cut(tensor.dtype)));
  else if (total_bits % 8 != 0 || total_bits / 8 != bytes)
    malformed(fmt::format("tensor \"{}\" ({} {}) takes {} bytes, expected {}", cut(tensor.name), tensor.dtype,
                          shape_text(tensor.shape), bytes, static_cast<double>(total_bits) / 8));
  return true;
}

void HeaderCheck::layout(std::vector<HeaderTensor>& tensors, uint64_t data_bytes) {
  const auto by_place = [](const HeaderTensor& a, const HeaderTensor& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  };
  if (!std::is_sorted(tensors.begin(), tensors.end(), by_place)) std::sort(tensors.begin(), tensors.end(), by_place);
  uint64_t expected = 0;
  for (const HeaderTensor& tensor : tensors) {
    if (tensor.begin != expected)
      malformed(fmt::format("tensor \"{}\" begins at {}, expected {} ({})", cut(tensor.name), tensor.begin, expected,
                            tensor.begin > expected ? "a hole" : "an overlap"));
    expected = std::max(expected, tensor.end);
  }
  if (expected != data_bytes)
    malformed(fmt::format("the tensors end at {}, the file holds {} bytes of tensors: {} {}", expected, data_bytes,
                          expected > data_bytes ? expected - data_bytes : data_bytes - expected,
                          expected > data_bytes ? "are missing" : "too many"));
}

std::string shown(std::string_view bytes) {
  std::string text;
  for (const char c : bytes.substr(0, kShownBytes)) text += c >= 0x20 && c < 0x7f ? c : '.';
  return text;
}

}  // namespace

std::optional<uint64_t> dtype_bits(std::string_view dtype) {
  const auto found = std::find_if(kDtypes.begin(), kDtypes.end(), [&](const Dtype& d) { return d.name == dtype; });
  return found == kDtypes.end() ? std::nullopt : std::optional<uint64_t>(found->bits);
}

std::optional<ShardHeader> parse_shard_header(std::string_view header, uint64_t file_size, const std::string& name,
                                              diag::Diagnostics& diagnostics) {
  HeaderCheck check(name, diagnostics);
  // Readers require the brace in the first place (safetensors/src/tensor.rs, InvalidHeaderStart); spaces may only
  // follow.
  if (header.empty() || header.front() != '{') {
    check.malformed(fmt::format("the header is not a JSON object; it begins \"{}\"", shown(header)));
    return std::nullopt;
  }
  // The parser takes a zero byte for the end of the text and would not see what is behind it.
  if (const size_t zero = header.find('\0'); zero != std::string_view::npos) {
    check.malformed(fmt::format("the header holds a zero byte at {}", zero));
    return std::nullopt;
  }
  HeaderReader reader;
  if (!json::sax_parse(header, &reader)) {
    check.malformed(fmt::format("the header is not JSON at byte {}; it begins \"{}\"", reader.error_at, shown(header)));
    return std::nullopt;
  }
  for (const std::string& twice : reader.keys.repeated())
    check.malformed(fmt::format("\"{}\" is listed twice", cut(twice)));
  if (!reader.metadata_is_text) check.malformed("\"__metadata__\" is not an object from text to text");

  std::vector<HeaderTensor>& tensors = reader.tensors;
  std::erase_if(tensors, [&](const HeaderTensor& tensor) { return !check.tensor(tensor); });
  check.layout(tensors, file_size - kLengthBytes - header.size());
  ShardHeader result;
  result.tensors.reserve(tensors.size());
  for (HeaderTensor& tensor : tensors) {
    result.data_bytes += tensor.end - tensor.begin;
    result.tensors.push_back({.name = std::move(tensor.name), .bytes = tensor.end - tensor.begin});
  }
  const auto by_name = [](const ShardTensor& a, const ShardTensor& b) { return a.name < b.name; };
  std::sort(result.tensors.begin(), result.tensors.end(), by_name);
  const auto last = std::unique(result.tensors.begin(), result.tensors.end(),
                                [](const ShardTensor& a, const ShardTensor& b) { return a.name == b.name; });
  result.tensors.erase(last, result.tensors.end());
  return result;
}

std::optional<ShardHeader> read_shard_header(const std::filesystem::path& file, const std::string& name,
                                             diag::Diagnostics& diagnostics) {
  const auto unreadable = [&](const char* operation) {
    diag::Diagnostic diagnostic =
        diag::make(diag::rule::weights_unreadable,
                   fmt::format("cannot {} \"{}\": {}", operation, name, std::generic_category().message(errno)));
    diagnostic.path = name;
    diagnostics.add(std::move(diagnostic));
    return std::nullopt;
  };
  HeaderCheck check(name, diagnostics);
  const base::FileDescriptor fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd.is_open()) return unreadable("open");
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) return unreadable("inspect");
  const auto size = static_cast<uint64_t>(status.st_size);
  const auto read_at = [&](char* to, size_t count, size_t offset) {
    size_t filled = 0;
    while (filled < count) {
      const ssize_t got = ::pread(fd.get(), to + filled, count - filled, static_cast<off_t>(offset + filled));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) break;
      filled += static_cast<size_t>(got);
    }
    return filled;
  };
  std::array<char, kLengthBytes> prefix{};
  if (read_at(prefix.data(), prefix.size(), 0) != prefix.size()) {
    check.malformed(fmt::format("{} bytes are too few for a safetensors file", size));
    return std::nullopt;
  }
  uint64_t length = 0;
  for (size_t i = kLengthBytes; i-- > 0;) length = (length << 8) | static_cast<unsigned char>(prefix[i]);
  if (length > kLargestHeader || length > size - kLengthBytes) {
    check.malformed(fmt::format("the header would be {} bytes long in a file of {}; it begins \"{}\"", length, size,
                                shown({prefix.data(), prefix.size()})));
    return std::nullopt;
  }
  std::string header(static_cast<size_t>(length), '\0');
  if (read_at(header.data(), header.size(), kLengthBytes) != header.size()) return unreadable("read");
  return parse_shard_header(header, size, name, diagnostics);
}

}  // namespace sweep::weights
