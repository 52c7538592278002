#include "orchestrator/engine/embedded/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "orchestrator/diag/rules/embedded.h"

namespace sweep::engine::embedded {

namespace {

using nlohmann::ordered_json;

constexpr uint64_t kMostHeaderBytes = 100'000'000;
constexpr size_t kLengthBytes = 8;

struct Entry {
  Tensor tensor;
  uint64_t begin = 0;
  uint64_t end = 0;
};

bool is_unsigned_list(const ordered_json& json) {
  return json.is_array() &&
         std::all_of(json.begin(), json.end(), [](const auto& item) { return item.is_number_unsigned(); });
}

// The number of elements, or nothing if it does not fit 2^40.
std::optional<int64_t> checked_elements(const std::vector<int64_t>& shape) {
  constexpr int64_t kMost = int64_t{1} << 40;
  int64_t product = 1;
  for (const int64_t extent : shape) {
    if (extent < 0 || extent > kMost || (extent != 0 && product > kMost / extent)) return std::nullopt;
    product *= extent;
  }
  return product;
}

// Reads one member of the header; an empty text means success.
std::string read_entry(const std::string& name, const ordered_json& json, Entry& entry) {
  if (!json.is_object()) return fmt::format("tensor \"{}\" is not described by an object", name);
  const auto dtype = json.find("dtype");
  const auto shape = json.find("shape");
  const auto offsets = json.find("data_offsets");
  if (dtype == json.end() || shape == json.end() || offsets == json.end()) {
    return fmt::format("tensor \"{}\" lacks dtype, shape or data_offsets", name);
  }
  TensorSpec& spec = entry.tensor.spec;
  spec.name = name;
  if (*dtype == "BF16") {
    spec.dtype = Dtype::kBf16;
  } else if (*dtype == "F32") {
    spec.dtype = Dtype::kF32;
  } else {
    return fmt::format("tensor \"{}\" has a dtype that is neither BF16 nor F32", name);
  }
  if (!is_unsigned_list(*shape) || !is_unsigned_list(*offsets) || offsets->size() != 2) {
    return fmt::format("tensor \"{}\" has a malformed shape or data_offsets", name);
  }
  spec.shape = shape->get<std::vector<int64_t>>();
  entry.begin = (*offsets)[0].get<uint64_t>();
  entry.end = (*offsets)[1].get<uint64_t>();
  const auto elements = checked_elements(spec.shape);
  if (!elements || entry.end < entry.begin ||
      entry.end - entry.begin != static_cast<uint64_t>(*elements * dtype_bytes(spec.dtype))) {
    return fmt::format("tensor \"{}\" has data_offsets that do not fit its shape", name);
  }
  return {};
}

}  // namespace

std::string_view dtype_name(Dtype dtype) {
  return dtype == Dtype::kBf16 ? "BF16" : "F32";
}

int64_t TensorSpec::elements() const {
  int64_t product = 1;
  for (const int64_t extent : shape) product *= extent;
  return product;
}

std::string safetensors_bytes(const std::vector<Tensor>& tensors) {
  ordered_json header;
  header["__metadata__"] = {{"format", "pt"}};
  size_t offset = 0;
  for (const auto& tensor : tensors) {
    ordered_json entry;
    entry["dtype"] = dtype_name(tensor.spec.dtype);
    entry["shape"] = tensor.spec.shape;
    entry["data_offsets"] = {offset, offset + tensor.bytes.size()};
    header[tensor.spec.name] = std::move(entry);
    offset += tensor.bytes.size();
  }
  std::string text = header.dump();
  text.append((kLengthBytes - text.size() % kLengthBytes) % kLengthBytes, ' ');
  std::string content;
  content.reserve(kLengthBytes + text.size() + offset);
  for (size_t i = 0; i < kLengthBytes; ++i) content.push_back(static_cast<char>((text.size() >> (8 * i)) & 0xFF));
  content += text;
  for (const auto& tensor : tensors) content += tensor.bytes;
  return content;
}

diag::Result<std::map<std::string, Tensor>> parse_safetensors(std::string_view content, const std::string& name) {
  const auto refuse = [&](const std::string& problem) {
    return diag::fail(diag::make_at(diag::rule::embedded_model_invalid, {.file = name}, problem));
  };
  if (content.size() < kLengthBytes) return refuse("the file is shorter than a safetensors header");
  uint64_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) {
    length |= static_cast<uint64_t>(static_cast<unsigned char>(content[i])) << (8 * i);
  }
  if (length > kMostHeaderBytes || length > content.size() - kLengthBytes) {
    return refuse(fmt::format("the header claims {} bytes, the file has {}", length, content.size()));
  }
  const auto header = ordered_json::parse(content.substr(kLengthBytes, length), nullptr, false);
  if (header.is_discarded() || !header.is_object()) return refuse("the header is not a JSON object");
  const std::string_view data = content.substr(kLengthBytes + length);
  std::vector<Entry> entries;
  for (const auto& [key, json] : header.items()) {
    if (key == "__metadata__") continue;
    Entry entry;
    if (auto problem = read_entry(key, json, entry); !problem.empty()) return refuse(problem);
    entries.push_back(std::move(entry));
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });
  uint64_t reached = 0;
  std::map<std::string, Tensor> tensors;
  for (auto& entry : entries) {
    if (entry.begin != reached || entry.end > data.size()) {
      return refuse(
          fmt::format("tensor \"{}\" overlaps another, leaves a hole or ends beyond the file", entry.tensor.spec.name));
    }
    reached = entry.end;
    entry.tensor.bytes = std::string(data.substr(entry.begin, entry.end - entry.begin));
    tensors.emplace(entry.tensor.spec.name, std::move(entry.tensor));
  }
  if (reached != data.size()) return refuse(fmt::format("{} bytes belong to no tensor", data.size() - reached));
  return tensors;
}

}  // namespace sweep::engine::embedded
