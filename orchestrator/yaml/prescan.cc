#include "orchestrator/yaml/prescan.h"

#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "orchestrator/diag/rules/yaml.h"

namespace sweep::yaml {

namespace {

using diag::RuleId;
namespace rule = diag::rule;

// A binary file must not produce a diagnostic per byte, nor one with Windows line ends a diagnostic per line: the first
// one is shown, the others are counted. Tabs are looked for one by one, in files that are text.
constexpr uint32_t kMostTabs = 10;
constexpr uint32_t kMostOthers = 1;
constexpr char32_t kInvalid = 0xFFFFFFFF;

struct Character {
  char32_t value = kInvalid;
  uint32_t length = 1;
};

// One UTF-8 sequence; overlong forms, surrogates and values above U+10FFFF are invalid (RFC 3629).
Character decode(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = byte(at);
  if (first < 0x80) return {first, 1};
  uint32_t length = 0;
  char32_t value = 0;
  char32_t least = 0;
  if (first >= 0xC2 && first <= 0xDF) {
    length = 2, value = first & 0x1Fu, least = 0x80;
  } else if (first >= 0xE0 && first <= 0xEF) {
    length = 3, value = first & 0x0Fu, least = 0x800;
  } else if (first >= 0xF0 && first <= 0xF4) {
    length = 4, value = first & 0x07u, least = 0x10000;
  } else {
    return {};
  }
  if (at + length > text.size()) return {};
  for (uint32_t i = 1; i < length; ++i) {
    if ((byte(at + i) & 0xC0) != 0x80) return {};
    value = (value << 6) | (byte(at + i) & 0x3Fu);
  }
  if (value < least || value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) return {};
  return {value, length};
}

bool is_control(char32_t c) {
  return (c < 0x20 && c != '\n' && c != '\r' && c != '\t') || (c >= 0x7F && c <= 0x9F) || c == 0x2028 || c == 0x2029 ||
         c == 0xFFFE || c == 0xFFFF;
}

// Message and help.
using Text = std::pair<std::string, std::string>;

class Reporter {
 public:
  Reporter(const Document& document, diag::Diagnostics& out) : document_(document), out_(out) {}

  ~Reporter() {
    const bool binary = found_.contains(rule::yaml_not_utf8) || found_.contains(rule::yaml_control_character);
    for (auto& [rule, found] : found_) {
      if (binary) found.shown.resize(1, found.shown.front());
      const size_t more = found.count - found.shown.size();
      if (more != 0)
        found.shown.back().notes.push_back(
            {fmt::format("and {} more {}", more, more == 1 ? "place" : "places"), std::nullopt});
      for (diag::Diagnostic& diagnostic : found.shown) out_.add(std::move(diagnostic));
    }
  }
  Reporter(const Reporter&) = delete;
  Reporter& operator=(const Reporter&) = delete;

  // `describe` gives message and help; it is asked for what is shown only.
  template <class F>
  void report(RuleId rule, uint32_t offset, uint32_t length, const F& describe) {
    Found& found = found_[rule];
    if (++found.count > (rule == rule::yaml_tab ? kMostTabs : kMostOthers)) return;
    auto [message, help] = describe();
    found.shown.push_back(
        diag::make_at(rule, document_.span({offset, offset + length}), std::move(message), std::move(help)));
  }

 private:
  struct Found {
    size_t count = 0;
    std::vector<diag::Diagnostic> shown;
  };

  const Document& document_;
  diag::Diagnostics& out_;
  std::map<RuleId, Found> found_;
};

// UTF-16 and UTF-32 files are told apart from damaged UTF-8 so that the advice can be right.
bool report_other_encoding(const Document& document, Reporter& reporter) {
  const std::string_view text = document.text();
  if (!text.starts_with("\xFF\xFE") && !text.starts_with("\xFE\xFF")) return false;
  reporter.report(rule::yaml_not_utf8, 0, 1, [] {
    return Text{"the file is encoded in UTF-16 or UTF-32, expected UTF-8",
                "save the file as UTF-8 without a byte-order mark"};
  });
  return true;
}

}  // namespace

std::optional<std::string> prescan(const Document& document, diag::Diagnostics& out) {
  Reporter reporter(document, out);
  if (report_other_encoding(document, reporter)) return std::nullopt;
  std::string text = document.text();
  bool readable = true;
  bool indentation = true;
  uint32_t last_cr_line = 0;
  uint32_t last_tab_line = 0;
  for (uint32_t at = 0; at < text.size();) {
    if (const char ascii = text[at]; (ascii >= ' ' && ascii <= '~') || ascii == '\n') {
      indentation = ascii == '\n' || (indentation && ascii == ' ');
      ++at;
      continue;
    }
    const Character c = decode(document.text(), at);
    if (c.value == '\t') {
      // One report a line, as with CR: an editor inserts them in runs.
      const uint32_t line = document.line_of(at);
      if (line != last_tab_line)
        reporter.report(rule::yaml_tab, at, 1, [] {
          return Text{"tab character", "use blanks; YAML forbids tabs in indentation"};
        });
      last_tab_line = line;
      if (indentation) readable = false;
      text[at] = ' ';
    } else if (c.value == '\r') {
      const uint32_t line = document.line_of(at);
      if (line != last_cr_line)
        reporter.report(rule::yaml_carriage_return, at, 1, [] {
          return Text{"carriage return", "save the file with Unix line ends (LF only)"};
        });
      last_cr_line = line;
      text[at] = ' ';
    } else if (c.value == 0xFEFF && at == 0) {
      reporter.report(rule::yaml_byte_order_mark, at, c.length, [] {
        return Text{"byte-order mark at the start of the file", "save the file as UTF-8 without a byte-order mark"};
      });
      for (uint32_t i = 0; i < c.length; ++i) text[at + i] = ' ';
      readable = false;  // the three blanks would shift the first line's indentation
    } else if (c.value == kInvalid) {
      reporter.report(rule::yaml_not_utf8, at, 1, [&] {
        return Text{fmt::format("byte 0x{:02X} is not valid UTF-8 here", static_cast<uint8_t>(text[at])),
                    "save the file as UTF-8"};
      });
      readable = false;
      indentation = false;
    } else if (is_control(c.value)) {
      reporter.report(rule::yaml_control_character, at, c.length, [&] {
        return Text{fmt::format("control character U+{:04X}", static_cast<uint32_t>(c.value)),
                    "remove it, or write it as an escape inside double quotes"};
      });
      readable = false;
      indentation = false;
    } else {
      indentation = false;
    }
    at += c.length;
  }
  if (!readable) return std::nullopt;
  return text;
}

}  // namespace sweep::yaml
