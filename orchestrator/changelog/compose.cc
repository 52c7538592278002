#include "orchestrator/changelog/compose.h"

#include <fmt/format.h>

#include <algorithm>

#include "orchestrator/base/utf8.h"
#include "orchestrator/diag/rules/changelog.h"
#include "orchestrator/yaml/scalar.h"

namespace sweep::changelog {

namespace {

// Keys of matrix entries and links are read better without quotes, where that is safe for every reader.
std::string plain_or_quoted(std::string_view text) {
  constexpr std::string_view kSafe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-*/:";
  const bool letter = !text.empty() && ((text[0] >= 'a' && text[0] <= 'z') || (text[0] >= 'A' && text[0] <= 'Z') ||
                                        (text[0] >= '0' && text[0] <= '9'));
  const bool safe = letter && text.find_first_not_of(kSafe) == std::string_view::npos && !text.ends_with(':') &&
                    yaml::mistaken_for(text).empty();
  return safe ? std::string(text) : quoted_scalar(text);
}

void append_list(std::string_view field, const std::vector<std::string>& items, std::string (*scalar)(std::string_view),
                 std::string& out) {
  out += fmt::format("{}:\n", field);
  for (const std::string& item : items) out += fmt::format("    - {}\n", scalar(item));
}

// One character of valid UTF-8 from its first byte.
size_t length_of(char first) {
  const auto byte = static_cast<unsigned char>(first);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

uint32_t code_point(std::string_view character) {
  if (character.size() == 1) return static_cast<unsigned char>(character[0]);
  uint32_t value = static_cast<unsigned char>(character[0]) & (0xFFu >> (character.size() + 1));
  for (const char c : character.substr(1)) value = (value << 6) | (static_cast<unsigned char>(c) & 0x3Fu);
  return value;
}

// Characters that some readers, editors or reviewers do not see as they are.
bool needs_escape(uint32_t c) {
  return c < 0x20 || (c >= 0x7F && c <= 0x9F) || c == 0x2028 || c == 0x2029 || c == 0xFEFF || (c & 0xFFFE) == 0xFFFE ||
         (c >= 0x202A && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069);
}

}  // namespace

std::string quoted_scalar(std::string_view text) {
  std::string out = "\"";
  for (size_t at = 0; at < text.size();) {
    const std::string_view character = text.substr(at, length_of(text[at]));
    at += character.size();
    const uint32_t c = code_point(character);
    if (c == '"' || c == '\\')
      out += fmt::format("\\{}", static_cast<char>(c));
    else if (c == '\n')
      out += "\\n";
    else if (c == '\t')
      out += "\\t";
    else if (!needs_escape(c))
      out += character;
    else
      out += c <= 0xFF     ? fmt::format("\\x{:02X}", c)
             : c <= 0xFFFF ? fmt::format("\\u{:04X}", c)
                           : fmt::format("\\U{:08X}", c);
  }
  return out + "\"";
}

diag::Result<std::string> to_yaml(const NewEntry& entry) {
  for (const auto* texts : {&entry.config_keys, &entry.description})
    for (const std::string& text : *texts)
      if (!base::is_utf8(text))
        return diag::fail(diag::rule::changelog_bad_entry, fmt::format("\"{}\" is not UTF-8", base::valid_utf8(text)),
                          "write it in UTF-8");
  std::string out;
  append_list("- config-keys", entry.config_keys, plain_or_quoted, out);
  append_list("  description", entry.description, quoted_scalar, out);
  out += fmt::format("  pr-link: {}\n", plain_or_quoted(entry.pr_link));
  if (entry.evals_only) out += "  evals-only: true\n";
  if (entry.all_evals) out += "  all-evals: true\n";
  if (entry.append_only) out += "  append-only: true\n";
  if (entry.eval_min_prefill_ep) out += fmt::format("  eval-min-prefill-ep: {}\n", *entry.eval_min_prefill_ep);
  if (!entry.scenario_types.empty()) append_list("  scenario-type", entry.scenario_types, plain_or_quoted, out);
  return out;
}

std::string appended(std::string_view changelog, std::string_view entry) {
  const bool separated = changelog.empty() || changelog.ends_with("\n\n");
  return fmt::format("{}{}{}", changelog, separated ? "" : "\n", entry);
}

}  // namespace sweep::changelog
