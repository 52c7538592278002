#include "orchestrator/weights/safetensors.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "orchestrator/base/file.h"
#include "orchestrator/diag/rules/weights.h"
#include "orchestrator/weights/model_path.h"

namespace sweep::weights {

namespace {

using nlohmann::json;

constexpr size_t kLengthBytes = 8;
constexpr uint64_t kLargestHeader = 100'000'000;  // the format's own limit
constexpr size_t kShownBytes = 40;

struct Dtype {
  std::string_view name;
  uint64_t bits;
};
// safetensors/src/tensor.rs, enum Dtype.
constexpr auto kDtypes = std::to_array<Dtype>(
    {{"BOOL", 8},    {"U8", 8},      {"I8", 8},   {"F4", 4},   {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"F8_E5M2", 8},
     {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"I16", 16}, {"U16", 16}, {"F16", 16},    {"BF16", 16},   {"I32", 32},
     {"U32", 32},    {"F32", 32},    {"C64", 64}, {"F64", 64}, {"I64", 64},    {"U64", 64}});

struct Tensor {
  std::string name;
  uint64_t begin = 0;
  uint64_t end = 0;
};

class HeaderCheck {
 public:
  HeaderCheck(const std::string& name, diag::Diagnostics& diagnostics) : name_(name), diagnostics_(diagnostics) {}

  void malformed(std::string message) { add(diag::rule::weights_header_malformed, std::move(message)); }

  std::optional<Tensor> tensor(const std::string& name, const json& item);
  void layout(std::vector<Tensor>& tensors, uint64_t data_bytes);

 private:
  void add(diag::RuleId rule, std::string message) {
    diag::Diagnostic diagnostic = diag::make(rule, fmt::format("\"{}\": {}", name_, message));
    diagnostic.path = name_;
    diagnostics_.add(std::move(diagnostic));
  }
  std::optional<uint64_t> elements(const json& shape) const;

  const std::string& name_;
  diag::Diagnostics& diagnostics_;
};

std::optional<uint64_t> HeaderCheck::elements(const json& shape) const {
  uint64_t product = 1;
  for (const json& extent : shape) {
    if (!extent.is_number_unsigned()) return std::nullopt;
    if (__builtin_mul_overflow(product, extent.get<uint64_t>(), &product)) return std::nullopt;
  }
  return product;
}

std::optional<Tensor> HeaderCheck::tensor(const std::string& name, const json& item) {
  const auto field = [&](const char* key) -> const json* {
    const auto found = item.is_object() ? item.find(key) : item.end();
    return item.is_object() && found != item.end() ? &*found : nullptr;
  };
  const json* dtype = field("dtype");
  const json* shape = field("shape");
  const json* offsets = field("data_offsets");
  if (dtype == nullptr || !dtype->is_string() || shape == nullptr || !shape->is_array() || offsets == nullptr ||
      !offsets->is_array() || offsets->size() != 2 || !(*offsets)[0].is_number_unsigned() ||
      !(*offsets)[1].is_number_unsigned()) {
    malformed(fmt::format("tensor \"{}\" lacks a proper dtype, shape or data_offsets", name));
    return std::nullopt;
  }
  Tensor tensor{.name = name, .begin = (*offsets)[0].get<uint64_t>(), .end = (*offsets)[1].get<uint64_t>()};
  if (tensor.end < tensor.begin) {
    malformed(fmt::format("tensor \"{}\" ends at {}, before its begin {}", name, tensor.end, tensor.begin));
    return std::nullopt;
  }
  const auto count = elements(*shape);
  const auto& dtype_name = dtype->get_ref<const std::string&>();
  const auto bits = dtype_bits(dtype_name);
  uint64_t total_bits = 0;
  if (!count || __builtin_mul_overflow(*count, bits.value_or(1), &total_bits)) {
    malformed(fmt::format("tensor \"{}\" has the impossible shape {}", name, shape->dump()));
  } else if (!bits) {
    add(diag::rule::weights_unknown_dtype, fmt::format("tensor \"{}\" has type \"{}\"", name, dtype_name));
  } else if (total_bits % 8 != 0 || total_bits / 8 != tensor.end - tensor.begin) {
    malformed(fmt::format("tensor \"{}\" ({} {}) takes {} bytes, expected {}", name, dtype_name, shape->dump(),
                          tensor.end - tensor.begin, static_cast<double>(total_bits) / 8));
  }
  return tensor;
}

void HeaderCheck::layout(std::vector<Tensor>& tensors, uint64_t data_bytes) {
  std::sort(tensors.begin(), tensors.end(), [](const Tensor& a, const Tensor& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  uint64_t expected = 0;
  for (const Tensor& tensor : tensors) {
    if (tensor.begin != expected)
      malformed(fmt::format("tensor \"{}\" begins at {}, expected {} ({})", tensor.name, tensor.begin, expected,
                            tensor.begin > expected ? "a hole" : "an overlap"));
    expected = std::max(expected, tensor.end);
  }
  if (expected != data_bytes)
    malformed(fmt::format("the tensors end at {}, the file holds {} bytes of tensors", expected, data_bytes));
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
  std::set<std::string> names;
  std::vector<std::string> repeated;
  // nlohmann keeps the last of two equal keys; a reader that keeps the first would load another tensor.
  const json::parser_callback_t find_repeated = [&](int depth, json::parse_event_t event, json& value) {
    if (event == json::parse_event_t::key && depth == 1 && !names.insert(value.get<std::string>()).second)
      repeated.push_back(value.get<std::string>());
    return true;
  };
  const json parsed = json::parse(header, find_repeated, false);
  if (!parsed.is_object()) {
    check.malformed(fmt::format("the header is not a JSON object; it begins \"{}\"", shown(header)));
    return std::nullopt;
  }
  for (const std::string& twice : repeated) check.malformed(fmt::format("tensor \"{}\" is listed twice", twice));
  ShardHeader result;
  std::vector<Tensor> tensors;
  for (const auto& [key, item] : parsed.items()) {
    if (key == "__metadata__") continue;
    auto tensor = check.tensor(key, item);
    if (!tensor) continue;
    result.tensor_bytes[key] = tensor->end - tensor->begin;
    result.data_bytes += tensor->end - tensor->begin;
    tensors.push_back(std::move(*tensor));
  }
  check.layout(tensors, file_size - kLengthBytes - header.size());
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

std::optional<ShardIndex> parse_index(std::string_view text, const std::string& name, diag::Diagnostics& diagnostics) {
  const auto add = [&](diag::RuleId rule, std::string message) {
    diag::Diagnostic diagnostic = diag::make(rule, fmt::format("\"{}\": {}", name, message));
    diagnostic.path = name;
    diagnostics.add(std::move(diagnostic));
  };
  const json parsed = json::parse(text, nullptr, false);
  const auto map = parsed.is_object() ? parsed.find("weight_map") : parsed.end();
  if (!parsed.is_object() || map == parsed.end() || !map->is_object()) {
    add(diag::rule::weights_index_malformed, "there is no object \"weight_map\"");
    return std::nullopt;
  }
  ShardIndex index;
  for (const auto& [tensor, file] : map->items()) {
    if (!file.is_string()) {
      add(diag::rule::weights_index_malformed, fmt::format("tensor \"{}\" has no file name", tensor));
      continue;
    }
    const auto& path = file.get_ref<const std::string&>();
    if (const auto reason = unsafe_reason(path))
      add(diag::rule::weights_path_escape, fmt::format("the file name of tensor \"{}\" {}", tensor, *reason));
    else
      index.weight_map[tensor] = path;
  }
  const auto metadata = parsed.find("metadata");
  if (metadata != parsed.end() && metadata->is_object()) {
    const auto total = metadata->find("total_size");
    if (total != metadata->end() && total->is_number_unsigned()) index.total_size = total->get<uint64_t>();
    // Some tools write it as a float.
    if (total != metadata->end() && total->is_number_float() && total->get<double>() >= 0 &&
        total->get<double>() < 0x1p53)
      index.total_size = static_cast<uint64_t>(total->get<double>());
  }
  return index;
}

}  // namespace sweep::weights
