#include "orchestrator/hub/listing.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "orchestrator/base/hex.h"
#include "orchestrator/diag/rules/hub.h"
#include "orchestrator/diag/rules/weights.h"
#include "orchestrator/diag/terminal_text.h"
#include "orchestrator/schema/model_path.h"

namespace sweep::hub {

namespace {

using nlohmann::json;

constexpr uint64_t kLargestFile = uint64_t{1} << 50;  // a petabyte: beyond it, it is a mistake

class EntryReader {
 public:
  EntryReader(const EntrySource& source, diag::Diagnostics& diagnostics) : source_(source), diagnostics_(diagnostics) {}

  void report(diag::RuleId rule, const std::string& message) {
    diagnostics_.add(diag::make(rule, fmt::format("{}: {}", source_.name, message)));
  }
  void report(const std::string& message) { report(source_.rule, message); }

  std::optional<ListedFile> read(const json& entry, size_t number);

 private:
  std::optional<std::string> text(const json& object, const char* key, const std::string& where);
  std::optional<uint64_t> size(const json& object, const std::string& where);
  bool read_digest(const json& entry, ListedFile& file, const std::string& where);

  const EntrySource& source_;
  diag::Diagnostics& diagnostics_;
};

std::optional<std::string> EntryReader::text(const json& object, const char* key, const std::string& where) {
  const auto found = object.find(key);
  if (found != object.end() && found->is_string() && !found->get_ref<const std::string&>().empty())
    return found->get<std::string>();
  report(fmt::format("{} has no text \"{}\"", where, key));
  return std::nullopt;
}

std::optional<uint64_t> EntryReader::size(const json& object, const std::string& where) {
  const auto found = object.find("size");
  if (found != object.end() && found->is_number_unsigned()) {
    const auto size = found->get<uint64_t>();
    if (size <= kLargestFile) return size;
    report(fmt::format("{} has the size {}, which no file has", where, size));
    return std::nullopt;
  }
  report(fmt::format("{} has no \"size\" in bytes", where));
  return std::nullopt;
}

bool EntryReader::read_digest(const json& entry, ListedFile& file, const std::string& where) {
  const auto lfs = entry.find("lfs");
  if (lfs != entry.end() && !lfs->is_null()) {
    if (!lfs->is_object()) {
      report(fmt::format("{} has an \"lfs\" that is no object", where));
      return false;
    }
    auto digest = text(*lfs, "oid", where + ", lfs,");
    const auto content_size = size(*lfs, where + ", lfs,");
    if (!digest || !content_size) return false;
    if (!base::is_lower_hex(*digest, base::kSha256Digits)) {
      report(fmt::format("{} has \"{}\" for a SHA-256, expected {} lower-case hex digits", where,
                         diag::printable(digest->substr(0, 100)), base::kSha256Digits));
      return false;
    }
    if (*content_size != file.size) {
      report(fmt::format("{} has the size {}, but its lfs.size is {}", where, file.size, *content_size));
      return false;
    }
    file.sha256 = std::move(digest);
    return true;
  }
  const auto xet = entry.find("xetHash");
  if (xet != entry.end() && !xet->is_null()) {
    // Its oid is that of a pointer, and a Xet hash is no digest of the content's bytes.
    report(fmt::format("{} has a Xet hash and no lfs.oid: nothing that its content can be checked against", where));
    return false;
  }
  auto blob = text(entry, "oid", where);
  if (!blob) return false;
  if (!base::is_lower_hex(*blob, base::kGitBlobDigits)) {
    report(fmt::format("{} has \"{}\" for a git blob id, expected {} lower-case hex digits", where,
                       diag::printable(blob->substr(0, 100)), base::kGitBlobDigits));
    return false;
  }
  file.git_blob = std::move(blob);
  return true;
}

std::optional<ListedFile> EntryReader::read(const json& entry, size_t number) {
  std::string where = fmt::format("entry {}", number);
  if (!entry.is_object()) {
    report(fmt::format("{} is no object", where));
    return std::nullopt;
  }
  const auto type = text(entry, "type", where);
  if (!type || *type == "directory") return std::nullopt;
  if (*type != "file") {
    report(fmt::format("{} has the type \"{}\", expected \"file\" or \"directory\"", where,
                       diag::printable(std::string_view(*type).substr(0, 100))));
    return std::nullopt;
  }
  auto path = text(entry, "path", where);
  if (!path) return std::nullopt;
  if (const auto reason = schema::unsafe_reason(*path)) {
    report(diag::rule::weights_path_escape,
           fmt::format("the file name \"{}\" {}", diag::printable(std::string_view(*path).substr(0, 500)), *reason));
    return std::nullopt;
  }
  where = fmt::format("\"{}\"", diag::printable(*path));
  const auto bytes = size(entry, where);
  if (!bytes) return std::nullopt;
  ListedFile file{.path = std::move(*path), .size = *bytes};
  if (!read_digest(entry, file, where)) return std::nullopt;
  const auto security = entry.find("securityFileStatus");
  if (security != entry.end() && security->is_object()) {
    const auto status = security->find("status");
    if (status != security->end() && status->is_string()) file.security = status->get<std::string>();
  }
  return file;
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; });
  return text;
}

// "model-00003-of-00048.safetensors": the parts around the number, and how many there are.
struct NumberedName {
  std::string before, after;
  uint32_t number = 0, count = 0;
};

std::optional<NumberedName> parse_numbered(const std::string& path) {
  constexpr size_t kDigits = 5;
  constexpr std::string_view kOf = "-of-";
  const size_t of = path.rfind(kOf);
  if (of == std::string::npos || of < kDigits + 1 || path[of - kDigits - 1] != '-') return std::nullopt;
  const size_t count_at = of + kOf.size();
  if (path.size() < count_at + kDigits) return std::nullopt;
  NumberedName name{.before = path.substr(0, of - kDigits), .after = path.substr(count_at + kDigits)};
  const auto read = [&](size_t at, uint32_t& value) {
    const char* end = path.data() + at + kDigits;
    const auto result = std::from_chars(path.data() + at, end, value);
    return result.ec == std::errc() && result.ptr == end;
  };
  if (!read(of - kDigits, name.number) || !read(count_at, name.count)) return std::nullopt;
  return name;
}

}  // namespace

std::string_view looks_like(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return "empty";
  if (text[begin] == '<') return "an HTML page";
  if (text[begin] == '[' || text[begin] == '{') return "broken JSON";
  return "not JSON";
}

std::vector<ListedFile> parse_entries(std::string_view text, const EntrySource& source,
                                      diag::Diagnostics& diagnostics) {
  EntryReader reader(source, diagnostics);
  const json root = json::parse(text, nullptr, false);
  if (root.is_discarded()) {
    reader.report(fmt::format("found {}, expected a JSON list of files", looks_like(text)));
    return {};
  }
  if (!root.is_array()) {
    reader.report(fmt::format("found a JSON {}, expected a list of files", root.type_name()));
    return {};
  }
  std::vector<ListedFile> files;
  size_t number = 0;
  for (const json& entry : root)
    if (auto file = reader.read(entry, ++number)) files.push_back(std::move(*file));
  return files;
}

void tidy(std::vector<ListedFile>& files, diag::Diagnostics& diagnostics) {
  std::stable_sort(files.begin(), files.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
  for (size_t i = 1; i < files.size(); ++i)
    if (files[i].path == files[i - 1].path)
      diagnostics.add(diag::make(diag::rule::hub_duplicate_path,
                                 fmt::format("\"{}\" is listed twice", diag::printable(files[i].path)),
                                 "pages of one listing must be given once each"));
  files.erase(std::unique(files.begin(), files.end(), [](const auto& a, const auto& b) { return a.path == b.path; }),
              files.end());
  std::map<std::string, std::string> seen;
  for (const ListedFile& file : files) {
    const auto [first, is_new] = seen.emplace(lower(file.path), file.path);
    if (!is_new)
      diagnostics.add(diag::make(diag::rule::hub_case_collision,
                                 fmt::format("\"{}\" and \"{}\" differ only in upper and lower case",
                                             diag::printable(first->second), diag::printable(file.path))));
  }
}

const ListedFile* find_file(std::span<const ListedFile> files, std::string_view path) {
  const auto found =
      std::lower_bound(files.begin(), files.end(), path, [](const auto& file, const auto& p) { return file.path < p; });
  return found != files.end() && found->path == path ? &*found : nullptr;
}

std::vector<std::string> missing_numbers(std::span<const ListedFile> files) {
  std::map<std::tuple<std::string, std::string, uint32_t>, std::vector<uint32_t>> series;
  for (const ListedFile& file : files)
    if (const auto name = parse_numbered(file.path))
      series[{name->before, name->after, name->count}].push_back(name->number);
  constexpr size_t kMostNamed = 100'000;  // a listing can call for more than memory holds
  std::vector<std::string> missing;
  for (const auto& [key, numbers] : series) {
    const auto& [before, after, count] = key;
    for (uint32_t number = 1; number <= count && missing.size() < kMostNamed; ++number)
      if (!std::binary_search(numbers.begin(), numbers.end(), number))
        missing.push_back(fmt::format("{}{:05}-of-{:05}{}", before, number, count, after));
  }
  return missing;
}

std::string enumeration(std::span<const std::string> names) {
  constexpr size_t kShown = 3;
  std::string text;
  const size_t shown = names.size() <= kShown + 1 ? names.size() : kShown;
  for (size_t i = 0; i < shown; ++i) {
    if (i != 0) text += i + 1 == names.size() ? " and " : ", ";
    text += fmt::format("\"{}\"", diag::printable(names[i]));
  }
  if (shown < names.size()) text += fmt::format(" and {} more", names.size() - shown);
  return text;
}

}  // namespace sweep::hub
