#include "orchestrator/weights/pin.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "orchestrator/base/file.h"
#include "orchestrator/diag/rules/file.h"
#include "orchestrator/diag/rules/weights.h"
#include "orchestrator/digest/sha256.h"
#include "orchestrator/weights/hash_files.h"
#include "orchestrator/weights/model_path.h"
#include "orchestrator/weights/safetensors.h"
#include "orchestrator/weights/staged_files.h"

namespace sweep::weights {

namespace {

using nlohmann::json;

constexpr uint64_t kLargestPin = uint64_t{16} << 20;
constexpr uint64_t kLargestIndex = uint64_t{256} << 20;
constexpr size_t kRevisionDigits = 40;
constexpr size_t kSha256Digits = 64;
constexpr size_t kGitBlobDigits = 40;
constexpr auto kFields =
    std::to_array<std::string_view>({"schema_version", "model", "revision", "complete", "files", "index", "generator"});
constexpr auto kFileFields = std::to_array<std::string_view>({"path", "size", "sha256", "git_blob"});
constexpr auto kIndexFields = std::to_array<std::string_view>({"total_size", "tensor_count"});

bool is_hex(std::string_view text, size_t digits) {
  return text.size() == digits &&
         std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

class PinReader {
 public:
  PinReader(const std::string& name, diag::Diagnostics& diagnostics) : name_(name), diagnostics_(diagnostics) {}

  Pin read(const json& root);
  void malformed(std::string path, std::string message) {
    add(diag::rule::weights_pin_malformed, std::move(path), std::move(message));
  }

 private:
  void add(diag::RuleId rule, std::string path, std::string message) {
    diag::Diagnostic diagnostic = diag::make_at(rule, {.file = name_}, std::move(message));
    diagnostic.path = std::move(path);
    diagnostics_.add(std::move(diagnostic));
  }

  template <class Allowed>
  bool exact_fields(const json& object, const std::string& path, const Allowed& allowed);
  std::string text(const json& object, const char* key, const std::string& path);
  std::optional<std::string> digits(const json& object, const char* key, size_t count, const std::string& path);
  std::optional<uint64_t> natural(const json& object, const char* key, const std::string& path);
  void read_file(const json& item, const std::string& path, Pin& pin);

  const std::string& name_;
  diag::Diagnostics& diagnostics_;
};

template <class Allowed>
bool PinReader::exact_fields(const json& object, const std::string& path, const Allowed& allowed) {
  if (!object.is_object()) {
    malformed(path, "expected an object");
    return false;
  }
  for (const auto& [key, value] : object.items())
    if (std::find(allowed.begin(), allowed.end(), key) == allowed.end())
      malformed(path, fmt::format("unknown field \"{}\"; allowed: {}", key, fmt::join(allowed, ", ")));
  bool all = true;
  for (const std::string_view key : allowed)
    if (!object.contains(key)) {
      malformed(path, fmt::format("field \"{}\" is missing", key));
      all = false;
    }
  return all;
}

std::string PinReader::text(const json& object, const char* key, const std::string& path) {
  if (object[key].is_string() && !object[key].get_ref<const std::string&>().empty()) return object[key];
  malformed(path + key, "expected text");
  return {};
}

std::optional<std::string> PinReader::digits(const json& object, const char* key, size_t count,
                                             const std::string& path) {
  const json& value = object[key];
  if (value.is_null()) return std::nullopt;
  if (value.is_string() && is_hex(value.get_ref<const std::string&>(), count)) return value.get<std::string>();
  malformed(path + key, fmt::format("expected {} lower-case hex digits or null", count));
  return std::nullopt;
}

std::optional<uint64_t> PinReader::natural(const json& object, const char* key, const std::string& path) {
  const json& value = object[key];
  if (value.is_number_unsigned()) return value.get<uint64_t>();
  if (!value.is_null()) malformed(path + key, "expected a number of bytes or null");
  return std::nullopt;
}

void PinReader::read_file(const json& item, const std::string& path, Pin& pin) {
  if (!exact_fields(item, path, kFileFields)) return;
  const std::string prefix = path + ".";
  PinnedFile file{.path = text(item, "path", prefix),
                  .size = natural(item, "size", prefix),
                  .sha256 = digits(item, "sha256", kSha256Digits, prefix),
                  .git_blob = digits(item, "git_blob", kGitBlobDigits, prefix)};
  if (file.path.empty()) return;
  if (const auto reason = unsafe_reason(file.path))
    return add(diag::rule::weights_path_escape, prefix + "path",
               fmt::format("the file name \"{}\" {}", file.path, *reason));
  pin.files.push_back(std::move(file));
}

Pin PinReader::read(const json& root) {
  Pin pin;
  if (!exact_fields(root, "", kFields)) return pin;
  if (root["schema_version"] != kPinVersion)
    malformed("schema_version", fmt::format("found {}, expected {}", root["schema_version"].dump(), kPinVersion));
  pin.model = text(root, "model", "");
  pin.revision = text(root, "revision", "");
  if (!pin.revision.empty() && !is_hex(pin.revision, kRevisionDigits))
    malformed("revision", fmt::format("\"{}\" is not a full revision of {} lower-case hex digits; a branch can move",
                                      pin.revision, kRevisionDigits));
  if (root["complete"].is_boolean())
    pin.complete = root["complete"].get<bool>();
  else
    malformed("complete", "expected true or false");
  if (root["generator"].is_string())
    pin.generator = root["generator"].get<std::string>();
  else if (!root["generator"].is_null())
    malformed("generator", "expected text or null");
  if (!root["index"].is_null() && exact_fields(root["index"], "index", kIndexFields)) {
    const auto total_size = natural(root["index"], "total_size", "index.");
    const auto tensor_count = natural(root["index"], "tensor_count", "index.");
    if (total_size && tensor_count)
      pin.index = IndexTotals{.total_size = *total_size, .tensor_count = *tensor_count};
    else
      malformed("index", "expected total_size and tensor_count");
  }
  if (!root["files"].is_array()) {
    malformed("files", "expected a list");
    return pin;
  }
  size_t number = 0;
  for (const json& item : root["files"]) read_file(item, fmt::format("files[{}]", number++), pin);
  std::sort(pin.files.begin(), pin.files.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
  for (size_t i = 1; i < pin.files.size(); ++i)
    if (pin.files[i].path == pin.files[i - 1].path)
      malformed("files", fmt::format("\"{}\" is listed twice", pin.files[i].path));
  return pin;
}

// The totals of the index of a folder that was just listed, if it has one.
std::optional<IndexTotals> totals_of(const std::vector<StagedFile>& files, diag::Diagnostics& diagnostics) {
  const auto found = std::find_if(files.begin(), files.end(), [](const auto& f) { return f.path == kIndexName; });
  if (found == files.end()) return std::nullopt;
  const auto text = base::read_file(found->opened, kLargestIndex);
  if (!text) {
    diagnostics.add(diag::make(diag::rule::weights_unreadable, text.error().text()));
    return std::nullopt;
  }
  const auto index = parse_index(*text, found->path, diagnostics);
  if (!index || !index->total_size) return std::nullopt;
  return IndexTotals{.total_size = *index->total_size, .tensor_count = index->weight_map.size()};
}

diag::Diagnostic first_error(const diag::Diagnostics& diagnostics) {
  const auto& items = diagnostics.items();
  return *std::find_if(items.begin(), items.end(), [](const auto& d) { return d.severity == diag::Severity::kError; });
}

}  // namespace

std::optional<Pin> parse_pin(std::string_view text, const std::string& name, diag::Diagnostics& diagnostics) {
  PinReader reader(name, diagnostics);
  const size_t errors_before = diagnostics.error_count();
  const json root = json::parse(text, nullptr, false);
  if (root.is_discarded()) {
    reader.malformed("", "not JSON");
    return std::nullopt;
  }
  Pin pin = reader.read(root);
  if (diagnostics.error_count() != errors_before) return std::nullopt;
  return pin;
}

std::optional<Pin> read_pin(const std::filesystem::path& path, diag::Diagnostics& diagnostics) {
  const auto text = base::read_file(path, kLargestPin);
  if (!text) {
    diagnostics.add(diag::make(diag::rule::file_unreadable, text.error().text()));
    return std::nullopt;
  }
  return parse_pin(*text, path.generic_string(), diagnostics);
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

diag::Result<Pin> pin_from_dir(const std::filesystem::path& dir, const PinSource& source, const std::stop_token& stop) {
  diag::Diagnostics diagnostics;
  const std::vector<StagedFile> staged = list_staged(dir, diagnostics);
  const auto totals = totals_of(staged, diagnostics);
  if (diagnostics.has_errors()) return diag::fail(first_error(diagnostics));
  std::vector<HashTask> tasks;
  for (const StagedFile& file : staged) {
    if (const auto reason = unsafe_reason(file.path))
      return diag::fail(diag::rule::weights_path_escape, fmt::format("the file name \"{}\" {}", file.path, *reason),
                        "no pin can hold such a name: rename the file");
    tasks.push_back({.file = file.opened, .size = file.size});
  }
  const std::vector<HashOutcome> outcomes = hash_files(tasks, {}, stop);
  Pin pin{.model = source.model, .complete = true, .index = totals, .generator = source.generator};
  for (size_t i = 0; i < staged.size(); ++i) {
    const HashOutcome& outcome = outcomes[i];
    if (outcome.state == HashState::kNotDone)
      return diag::fail(diag::rule::weights_not_checked, "interrupted before all files were hashed");
    if (outcome.state != HashState::kDone)
      return diag::fail(
          outcome.state == HashState::kChanged ? diag::rule::weights_changed : diag::rule::weights_unreadable,
          fmt::format("\"{}\": {}", staged[i].path, outcome.reason));
    pin.files.push_back(
        {.path = staged[i].path, .size = outcome.size, .sha256 = outcome.sha256, .git_blob = std::nullopt});
  }
  pin.revision = source.revision ? *source.revision : content_revision(pin.files);
  return pin;
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
