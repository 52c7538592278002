#include "orchestrator/changelog/layout.h"

#include <fmt/format.h>

#include <algorithm>

#include "orchestrator/diag/rules/changelog.h"

namespace sweep::changelog {

namespace {

namespace rule = diag::rule;

constexpr std::string_view kLinkLine = "  pr-link:";
constexpr size_t kMostLines = 10;  // reported one by one

// Walks over lines; the line break belongs to no line. A text that ends with a line break has no further line.
class Lines {
 public:
  explicit Lines(std::string_view text) : text_(text) {}

  bool done() const { return at_ >= text_.size(); }
  size_t offset() const { return at_; }
  std::string_view line() const { return done() ? std::string_view() : text_.substr(at_, end() - at_); }
  void next() { at_ = end() + 1; }

 private:
  size_t end() const { return std::min(text_.find('\n', at_), text_.size()); }

  std::string_view text_;
  size_t at_ = 0;
};

// The line from its first differing byte, so that the mark shows where.
diag::SourceSpan difference(const yaml::Document& document, size_t line_offset, std::string_view line,
                            std::string_view other) {
  const auto [mine, theirs] = std::mismatch(line.begin(), line.end(), other.begin(), other.end());
  const auto begin = static_cast<uint32_t>(line_offset + static_cast<size_t>(mine - line.begin()));
  const auto end = static_cast<uint32_t>(line_offset + line.size());
  return document.span({begin, std::max(begin, end)});
}

struct Difference {
  const yaml::Document& base;
  const yaml::Document& head;
  Lines base_at;
  Lines head_at;
};

diag::Diagnostic describe(const Difference& d, std::string help) {
  const uint32_t line = d.base.line_of(static_cast<uint32_t>(std::min(d.base_at.offset(), d.base.text().size())));
  if (d.base_at.done() && !d.head_at.done())
    return diag::make_at(rule::changelog_history_changed, difference(d.head, d.head_at.offset(), d.head_at.line(), {}),
                         "something other than a new entry was added behind the history", std::move(help));
  const auto end = static_cast<uint32_t>(d.head.text().size());
  diag::Diagnostic result =
      d.head_at.done() ? diag::make_at(rule::changelog_history_changed, d.head.span({end, end}),
                                       fmt::format("the history ends before its line {}", line), std::move(help))
                       : diag::make_at(rule::changelog_history_changed,
                                       difference(d.head, d.head_at.offset(), d.head_at.line(), d.base_at.line()),
                                       fmt::format("line {} of the history was changed", line), std::move(help));
  result.notes.push_back({"the history says", difference(d.base, d.base_at.offset(), d.base_at.line(),
                                                         d.head_at.done() ? "" : d.head_at.line())});
  return result;
}

constexpr const char* kOneEmptyLine = "leave exactly one empty line, without blanks, before the entry";
constexpr std::string_view kRestore = "restore the history byte for byte: comments, quotes and empty lines count too";

bool all_blank(std::string_view text) {
  return text.find_first_not_of(" \n") == std::string_view::npos;
}

}  // namespace

bool check_prefix(const yaml::Document& base, const yaml::Document& head, diag::Diagnostics& out) {
  if (head.text().starts_with(base.text())) return true;
  Difference d{base, head, Lines(base.text()), Lines(head.text())};
  while (!d.base_at.done() && !d.head_at.done() && d.base_at.line() == d.head_at.line()) {
    d.base_at.next();
    d.head_at.next();
  }
  out.add(describe(d, std::string(kRestore)));
  return false;
}

void check_corrections(const Comparison& comparison, diag::Diagnostics& out) {
  Difference d{*comparison.base.document, *comparison.head.document, Lines(comparison.base.document->text()),
               Lines(comparison.head.document->text())};
  const size_t corrected = comparison.entries(ChangeKind::kCorrected).size();
  size_t link_lines = 0;
  size_t others = 0;
  while (!d.base_at.done() && !d.head_at.done()) {
    const std::string_view old_line = d.base_at.line();
    const std::string_view new_line = d.head_at.line();
    if (old_line != new_line) {
      const bool link = old_line.starts_with(kLinkLine) && new_line.starts_with(kLinkLine);
      link_lines += link ? 1u : 0u;
      if (!link && ++others <= kMostLines)
        out.add(describe(d, "a correction changes nothing but the line of the pr-link"));
    }
    d.base_at.next();
    d.head_at.next();
  }
  const auto end = static_cast<uint32_t>(d.head.text().size());
  if (d.base_at.done() != d.head_at.done()) {
    out.add(describe(d, "a correction neither adds nor removes lines"));
  } else if (others == 0 && link_lines != corrected) {
    out.add(diag::make_at(rule::changelog_history_changed, d.head.span({end, end}),
                          fmt::format("{} lines of pr-links were changed, but {} links differ", link_lines, corrected),
                          "a correction changes nothing but the line of the pr-link"));
  }
}

void check_additions(const yaml::Document* base, const schema::ChangelogFile& head, size_t first_added,
                     diag::Diagnostics& out) {
  const std::string_view text = head.document->text();
  if (base != nullptr && !base->text().ends_with('\n')) return;  // cut: reported as such
  const size_t history = base == nullptr ? 0 : base->text().size();
  const auto report = [&](size_t index, std::string message, std::string help) {
    diag::Diagnostic d = diag::make_at(rule::changelog_separator, head.document->span(head.entries[index].where),
                                       std::move(message), std::move(help));
    d.path = fmt::format("[{}]", index);
    out.add(std::move(d));
  };
  for (size_t i = first_added; i < head.entries.size(); ++i) {
    const size_t start = head.line_start(i);
    if (start < history) continue;  // on one line with history: a matter of layout, reported there
    const std::string_view before = text.substr(0, start);
    if (i == first_added) {
      if (base == nullptr) continue;  // a comment may open a new file
      const std::string_view between = text.substr(history, start - history);
      const std::string_view expected = base->text().ends_with("\n\n") ? "" : "\n";
      if (between == expected) continue;
      const std::string name = name_of(head.entries[i], i);
      if (!all_blank(between))
        report(i, fmt::format("a comment stands between the history and new {}", name),
               "move the comment below the first line of the entry");
      else
        report(i,
               fmt::format("{} stands between the history and new {}, expected exactly one empty line",
                           between.empty() ? "nothing" : "more than one empty line, or one with blanks,", name),
               kOneEmptyLine);
    } else if (!before.ends_with("\n\n") || before.ends_with("\n\n\n")) {
      report(i, fmt::format("right before new {} must be exactly one empty line", name_of(head.entries[i], i)),
             kOneEmptyLine);
    }
  }
  if (text.ends_with("\n\n")) {
    const auto end = static_cast<uint32_t>(text.size() - 1);
    out.add(diag::make_at(rule::changelog_file_end, head.document->span({end, end}),
                          "an empty line stands behind the last new entry", "end the file with exactly one newline"));
  }
}

}  // namespace sweep::changelog
