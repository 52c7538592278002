// Rules over one changelog file.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "orchestrator/base/edit_distance.h"
#include "orchestrator/diag/rules/changelog.h"
#include "orchestrator/schema/changelog_file.h"
#include "orchestrator/schema/kinds.h"
#include "orchestrator/schema/rules.h"
#include "orchestrator/yaml/parse.h"

namespace sweep::schema {

namespace {

namespace rule = diag::rule;

constexpr std::string_view kFirstLine = "- config-keys:";
constexpr size_t kMostKeysNamed = 5;

bool is_new(const ChangelogEntry& entry) {
  return entry.pr_link &&
         (*entry.pr_link == kPlaceholderLink || entry.pr_link->ends_with("/" + std::string(kPlaceholderLink)));
}

uint32_t start_of_line(std::string_view text, uint32_t offset) {
  if (offset == 0) return 0;
  return static_cast<uint32_t>(text.rfind('\n', offset - 1) + 1);
}

// The fields of an entry that begins as it should stand in the third column, so that a merge key among them does too.
bool is_merge_line(std::string_view line) {
  if (!line.starts_with("  <<")) return false;
  line.remove_prefix(4);
  return line.substr(std::min(line.find_first_not_of(' '), line.size())).starts_with(':');
}

bool matches_any(std::string_view pattern, std::span<const std::string_view> names) {
  return std::any_of(names.begin(), names.end(), [&](std::string_view name) { return key_matches(pattern, name); });
}

// Lines that tools take for the beginning of an entry, and those that begin one, must be the same.
void check_first_lines(const yaml::Document& document, diag::Diagnostics& out) {
  const std::string_view text = document.text();
  std::set<uint32_t> starts;
  for (const yaml::Node& item : document.root().items) {
    const uint32_t start = start_of_line(text, item.where.begin);
    starts.insert(start);
    if (!item.is_map() || text.substr(start).starts_with(kFirstLine)) continue;
    out.add(diag::make_at(rule::changelog_layout, document.span(item.where),
                          fmt::format("a changelog entry must begin with the line \"{}\"", kFirstLine),
                          "put config-keys first, unquoted, with the dash in the first column"));
  }
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const auto begin = static_cast<uint32_t>(at);
    const std::string_view line = text.substr(at, end - at);
    const auto where = [&](size_t from, size_t to) {
      return document.span({begin + static_cast<uint32_t>(from), begin + static_cast<uint32_t>(to)});
    };
    if (line.starts_with(kFirstLine) && !starts.contains(begin))
      out.add(diag::make_at(rule::changelog_layout, where(0, kFirstLine.size()),
                            fmt::format("a line begins with \"{}\", but no entry begins here", kFirstLine),
                            "tools find entries by such lines: indent the text, or quote it"));
    if (is_merge_line(line))
      out.add(diag::make_at(rule::changelog_layout, where(2, 4), "fields of a changelog entry come from a merge key",
                            "write the fields of a changelog entry out"));
    at = end + 1;
  }
}

// A file in conflict is no YAML; the parser's words about it would help nobody.
bool report_conflict(std::string_view name, std::string_view text, diag::Diagnostics& out) {
  uint32_t line = 1;
  bool any = false;
  for (size_t at = 0; at < text.size(); ++line) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view content = text.substr(at, end - at);
    if (content.starts_with("<<<<<<< ") || content.starts_with(">>>>>>> ")) {
      out.add(diag::make_at(rule::changelog_conflict_markers, {std::string(name), line, 1, 8},
                            fmt::format("conflict marker \"{}\"", content.substr(0, 7)),
                            "run `sweepctl changelog resolve-conflict`"));
      any = true;
    }
    at = end + 1;
  }
  return any;
}

// History names entries that have been removed since, which nobody can or should repair.
void report_historic_keys(const yaml::Document& document, const std::vector<const Text*>& keys, size_t entries,
                          diag::Diagnostics& out) {
  std::vector<std::string_view> names;
  for (const Text* key : keys)
    if (std::find(names.begin(), names.end(), key->value) == names.end()) names.push_back(key->value);
  const size_t shown = std::min(names.size(), kMostKeysNamed);
  const std::string list =
      fmt::format("{}", fmt::join(names.begin(), names.begin() + static_cast<ptrdiff_t>(shown), ", "));
  diag::Diagnostic d =
      diag::make_at(rule::changelog_key_matches_nothing, document.span(keys.front()->where),
                    fmt::format("{} older {} name config keys that match no matrix entry any more: {}{}", entries,
                                entries == 1 ? "entry does" : "entries", list,
                                names.size() > shown ? fmt::format(" and {} more", names.size() - shown) : ""),
                    "nothing to do: history stays as it was when those entries were removed from the matrix");
  d.severity = diag::Severity::kNote;
  out.add(std::move(d));
}

}  // namespace

uint32_t ChangelogFile::line_start(size_t index) const {
  const std::string_view text = document->text();
  if (index >= entries.size()) return static_cast<uint32_t>(text.size());
  return start_of_line(text, entries[index].where.begin);
}

bool key_matches(std::string_view pattern, std::string_view name) {
  size_t p = 0;
  size_t n = 0;
  size_t star = std::string_view::npos;
  size_t resume = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = n;
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p, ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

std::vector<std::string_view> matched_names(const ChangelogEntry& entry, std::span<const std::string_view> names) {
  std::vector<std::string_view> matched;
  std::copy_if(names.begin(), names.end(), std::back_inserter(matched), [&](std::string_view name) {
    return std::any_of(entry.config_keys.begin(), entry.config_keys.end(),
                       [&](const Text& key) { return key && key_matches(*key, name); });
  });
  return matched;
}

void check_changelog_text(const yaml::Document& document, diag::Diagnostics& out) {
  const std::string& text = document.text();
  const auto end = static_cast<uint32_t>(text.size());
  if (!text.ends_with('\n'))
    out.add(diag::make_at(rule::changelog_layout, document.span({end, end}), "the file does not end with a newline",
                          "the next entry would be appended to the last line"));
  if (document.root().is_sequence()) check_first_lines(document, out);
}

ChangelogFile read_changelog(std::string name, std::string text, diag::Diagnostics& out) {
  ChangelogFile file;
  diag::Diagnostics found;
  if (report_conflict(name, text, out)) return file;
  file.document = yaml::parse(std::move(name), std::move(text), found);
  if (file.document != nullptr) {
    file.entries = decode_changelog(file.document, found);
    check_changelog_text(*file.document, found);
  }
  file.valid = !found.has_errors();
  out.add_all(found);
  return file;
}

void check_entry_keys(const ChangelogEntry& entry, std::span<const std::string_view> names, diag::Diagnostics& out) {
  for (const Text& key : entry.config_keys) {
    if (!key || matches_any(*key, names)) continue;
    const auto nearest = base::nearest(*key, {names.begin(), names.end()});
    out.add(diag::make_at(rule::changelog_key_matches_nothing, entry.document->span(key.where),
                          fmt::format("config key \"{}\" matches no matrix entry", *key),
                          nearest ? fmt::format("did you mean \"{}\"?", *nearest)
                                  : "keys are names of matrix entries; \"*\" matches anything"));
  }
}

void check_changelog_keys(const Checkout& checkout, diag::Diagnostics& out) {
  if (checkout.entries.empty()) return;
  std::vector<std::string_view> names;
  for (const MatrixEntry& entry : checkout.entries) names.push_back(entry.key);
  struct Historic {
    std::vector<const Text*> keys;
    size_t entries = 0;
  };
  std::map<const yaml::Document*, Historic> historic;
  for (const ChangelogEntry& entry : checkout.changelog) {
    if (is_new(entry)) {
      check_entry_keys(entry, names, out);
      continue;
    }
    Historic& file = historic[entry.document.get()];
    const size_t before = file.keys.size();
    for (const Text& key : entry.config_keys)
      if (key && !matches_any(*key, names)) file.keys.push_back(&key);
    if (file.keys.size() != before) ++file.entries;
  }
  for (const auto& [document, found] : historic)
    if (!found.keys.empty()) report_historic_keys(*document, found.keys, found.entries, out);
}

}  // namespace sweep::schema
