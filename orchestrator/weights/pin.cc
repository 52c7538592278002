#include "orchestrator/weights/pin.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <utility>

#include "orchestrator/base/file.h"
#include "orchestrator/diag/rules/file.h"
#include "orchestrator/diag/rules/weights.h"
#include "orchestrator/digest/sha256.h"
#include "orchestrator/schema/kinds.h"
#include "orchestrator/yaml/parse.h"

namespace sweep::weights {

namespace {

using nlohmann::json;

constexpr size_t kRevisionDigits = 40;

template <class To, class From>
std::optional<To> kept(const schema::Located<From>& value) {
  if (!value) return std::nullopt;
  return static_cast<To>(*value);
}

// Of a pin that was decoded without errors.
Pin from_schema(schema::Pin decoded) {
  Pin pin{.model = std::move(decoded.model.value),
          .revision = std::move(decoded.revision.value),
          .complete = decoded.complete.value_or(true),  // a lock file lists what there is to verify
          .generator = kept<std::string>(decoded.generator)};
  for (const schema::PinFile& file : decoded.files)
    pin.files.push_back({.path = *file.path,
                         .size = kept<uint64_t>(file.size),
                         .sha256 = kept<std::string>(file.sha256),
                         .git_blob = kept<std::string>(file.git_blob)});
  std::sort(pin.files.begin(), pin.files.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
  if (decoded.index)
    pin.index = IndexTotals{.total_size = static_cast<uint64_t>(*decoded.index->total_size),
                            .tensor_count = static_cast<uint64_t>(*decoded.index->tensor_count)};
  return pin;
}

bool is_yaml(const std::string& name) {
  return name.ends_with(".yaml") || name.ends_with(".yml");
}

}  // namespace

std::optional<Pin> parse_pin(std::string_view text, const std::string& name, diag::Diagnostics& diagnostics) {
  const size_t errors_before = diagnostics.error_count();
  const schema::DocumentPtr document = is_yaml(name) ? yaml::parse(name, std::string(text), diagnostics)
                                                     : yaml::parse_json(name, std::string(text), diagnostics);
  if (document == nullptr) return std::nullopt;
  schema::Pin decoded = schema::decode_pin(document, name, diagnostics);
  if (diagnostics.error_count() != errors_before) return std::nullopt;
  return from_schema(std::move(decoded));
}

std::optional<Pin> read_pin(const std::filesystem::path& path, diag::Diagnostics& diagnostics,
                            diag::SourceMap* sources) {
  const uint64_t most = yaml::Limits().bytes;
  const std::string name = path.generic_string();
  const auto text = base::read_file(path, most);
  if (text) {
    if (sources != nullptr) sources->add(name, *text);
    return parse_pin(*text, name, diagnostics);
  }
  if (text.error().error_number == EFBIG)
    diagnostics.add(diag::make_at(diag::rule::file_too_large, {.file = name},
                                  fmt::format("the file is larger than {} bytes", most)));
  else
    diagnostics.add(diag::make_at(diag::rule::file_unreadable, {.file = name}, text.error().text()));
  return std::nullopt;
}

std::string to_text(const Pin& pin) {
  const auto or_null = [](const auto& value) { return value ? json(*value) : json(nullptr); };
  std::vector<PinnedFile> sorted = pin.files;
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
  json files = json::array();
  for (const PinnedFile& file : sorted)
    files.push_back({{"path", file.path},
                     {"size", or_null(file.size)},
                     {"sha256", or_null(file.sha256)},
                     {"git_blob", or_null(file.git_blob)}});
  json index = nullptr;
  if (pin.index) index = {{"total_size", pin.index->total_size}, {"tensor_count", pin.index->tensor_count}};
  const json root = {{"schema_version", kPinVersion},      {"model", pin.model},        {"revision", pin.revision},
                     {"complete", pin.complete},           {"files", std::move(files)}, {"index", std::move(index)},
                     {"generator", or_null(pin.generator)}};
  return root.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

diag::Result<diag::Done> write_pin(const std::filesystem::path& path, const Pin& pin) {
  const auto written = base::write_file_atomic(path, to_text(pin));
  if (!written) return diag::fail(diag::rule::file_unwritable, written.error().text());
  return diag::Done{};
}

std::string pin_digest(const Pin& pin) {
  return digest::sha256_hex(to_text(pin));
}

std::string content_revision(std::span<const PinnedFile> files) {
  std::vector<std::string> lines;
  for (const PinnedFile& file : files) lines.push_back(fmt::format("{} {}\n", file.path, file.sha256.value_or("")));
  std::sort(lines.begin(), lines.end());
  digest::Sha256 hash;
  for (const std::string& line : lines) hash.update(line);
  return digest::hex(hash.finish()).substr(0, kRevisionDigits);
}

}  // namespace sweep::weights
