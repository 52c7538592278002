#include "orchestrator/report/matrix_summary.h"

#include <fmt/format.h>

#include <map>

#include "orchestrator/report/matrix_texts.h"

namespace sweep::report {

namespace {

using plan::MatrixSummary;

constexpr size_t kMostRows = 60;
constexpr size_t kMostText = 200;  // of a cell
constexpr size_t kShownValues = 8;

std::string list_text(const std::vector<int64_t>& values) {
  std::string text;
  for (size_t i = 0; i < values.size() && i < kShownValues; ++i)
    text += fmt::format("{}{}", i == 0 ? "" : ", ", values[i]);
  if (values.size() > kShownValues) text += fmt::format(", ... ({})", values.size());
  return text;
}

std::string hours_text(double hours) {
  return fmt::format("{:.1f}", hours);
}

class Writer {
 public:
  Writer(const MatrixSummary& summary, TableStyle style, Language language)
      : s_(summary), style_(style), t_(texts_of(language)) {}

  std::string run() {
    heading(t_.title, 2);
    line(fmt::format(fmt::runtime(t_.totals), s_.entries, s_.jobs, s_.points));
    if (s_.in_progress != 0) line(fmt::format(fmt::runtime(t_.in_progress), s_.in_progress));
    if (s_.has_base) add_changes();
    add_runners();
    add_research();
    add_acceptance();
    add_open();
    add_warnings();
    return std::move(out_);
  }

 private:
  void heading(const char* text, int level) {
    if (!out_.empty() && !out_.ends_with("\n\n")) out_ += "\n";
    out_ += style_ == TableStyle::kMarkdown
                ? fmt::format("{} {}\n\n", std::string(static_cast<size_t>(level), '#'), text)
                : fmt::format("{}\n", text);
  }

  // A sentence of its own. Text from files in it has been escaped.
  void line(const std::string& text) { out_ += style_ == TableStyle::kMarkdown ? text + "\n\n" : "  " + text + "\n"; }

  void add(Table table) {
    const size_t all = table.rows.size();
    if (all > kMostRows) table.rows.resize(kMostRows);
    out_ += render(table, style_);
    if (all <= kMostRows) return;
    if (style_ == TableStyle::kMarkdown) out_ += "\n";
    line(fmt::format(fmt::runtime(t_.more), all - kMostRows));
  }

  void add_runners() {
    heading(t_.per_runner, 3);
    Table table{{{t_.runner},
                 {t_.gpu},
                 {t_.jobs, true},
                 {t_.points, true},
                 {t_.evaluated, true},
                 {t_.waiting, true},
                 {t_.gpus_a_job, true},
                 {t_.gpu_hours, true}},
                {}};
    for (const plan::RunnerLoad& load : s_.runners)
      table.rows.push_back({load.runner, load.gpu_type.empty() ? "-" : load.gpu_type, count(load.jobs),
                            count(load.points), count(load.evaluated), count(load.in_progress), gpus_text(load),
                            hours_of(load)});
    add(std::move(table));
    if (style_ == TableStyle::kMarkdown && !out_.ends_with("\n\n")) out_ += "\n";
    line(t_.job_note);
  }

  static std::string count(size_t value) { return value == 0 ? "-" : std::to_string(value); }

  static std::string gpus_text(const plan::RunnerLoad& load) {
    if (load.jobs == 0 || load.most_gpus == 0) return "-";
    if (load.least_gpus == load.most_gpus) return std::to_string(load.most_gpus);
    return fmt::format("{}-{}", load.least_gpus, load.most_gpus);
  }

  std::string hours_of(const plan::RunnerLoad& load) const {
    if (load.jobs == 0 || load.most_gpus == 0) return "-";
    if (load.jobs_with_limit == load.jobs) return "≤ " + hours_text(load.limited_gpu_hours);
    if (load.jobs_with_limit == 0) return t_.unknown;
    return fmt::format(fmt::runtime(t_.unknown_of), load.jobs - load.jobs_with_limit,
                       hours_text(load.limited_gpu_hours));
  }

  void add_changes() {
    heading(t_.changes, 3);
    if (s_.changes.empty()) return line(t_.no_change);
    line(fmt::format(fmt::runtime(t_.change_totals), s_.totals.added, s_.totals.removed, s_.totals.changed));
    Table table{{{t_.entry}, {t_.recipe}, {t_.added}, {t_.removed}, {t_.changed}, {t_.fields}}, {}};
    for (const plan::RecipeChange& change : s_.changes)
      table.rows.push_back({change.entry, change.recipe, list_text(change.added), list_text(change.removed),
                            list_text(change.changed), fields_text(change)});
    add(std::move(table));
  }

  std::string fields_text(const plan::RecipeChange& change) const {
    constexpr size_t kMostValue = 60;
    std::string text;
    for (const plan::FieldChange& field : change.fields) {
      const auto value = [&](const std::string& stated) {
        return stated.empty() ? std::string(t_.not_stated) : shortened(stated, kMostValue);
      };
      text +=
          fmt::format("{}{}: {} → {}", text.empty() ? "" : "; ", field.path, value(field.before), value(field.after));
    }
    return shortened(text, kMostText);
  }

  static std::string names_text(const std::vector<std::string>& names) {
    constexpr size_t kShown = 4;
    std::string text;
    for (size_t i = 0; i < names.size() && i < kShown; ++i) text += (i == 0 ? "" : ", ") + names[i];
    if (names.size() > kShown) text += fmt::format(", ... ({})", names.size());
    return text;
  }

  void add_research() {
    if (s_.research.empty()) return;
    heading(t_.research, 3);
    Table table{{{t_.entries}, {t_.authorization}, {t_.deviations}}, {}};
    for (const plan::ResearchGroup& group : s_.research) {
      std::string deviations;
      for (const std::string& deviation : group.deviations) deviations += (deviations.empty() ? "" : "; ") + deviation;
      const std::string authorization =
          group.authorization.empty() ? t_.not_stated : shortened(group.authorization, kMostText);
      if (deviations.empty()) deviations = t_.not_stated;
      if (style_ == TableStyle::kText)  // too much text for columns
        out_ += fmt::format("  {}\n    {}: {}\n    {}: {}\n", one_line(names_text(group.entries)), t_.authorization,
                            one_line(authorization), t_.deviations, one_line(deviations));
      else
        table.rows.push_back({names_text(group.entries), authorization, shortened(deviations, 2 * kMostText)});
    }
    add(std::move(table));
  }

  void add_acceptance() {
    if (s_.acceptance.empty()) return;
    heading(t_.acceptance, 3);
    Table table{{{t_.method}, {t_.drafts, true}, {t_.source}, {t_.length, true}, {t_.topologies, true}, {t_.entries}},
                {}};
    for (const plan::AcceptanceGroup& group : s_.acceptance)
      table.rows.push_back({group.method, group.draft_tokens == 0 ? t_.not_stated : std::to_string(group.draft_tokens),
                            group.source.empty() ? t_.not_stated : group.source,
                            group.length ? fmt::format("{}", *group.length) : "-", std::to_string(group.topologies),
                            names_text(group.entries)});
    add(std::move(table));
  }

  void add_open() {
    if (s_.open.empty()) return;
    heading(t_.open, 3);
    Table table{{{t_.entry}, {t_.what}}, {}};
    for (const plan::OpenItem& item : s_.open) {
      const bool in_progress = item.kind == plan::OpenItem::Kind::kInProgress;
      table.rows.push_back({item.entry, in_progress ? std::string(t_.is_in_progress)
                                                    : fmt::format(fmt::runtime(t_.unresolved), item.recipes.size(),
                                                                  shortened(item.recipes.front(), kMostText))});
    }
    add(std::move(table));
  }

  void add_warnings() {
    std::vector<const diag::Diagnostic*> found;
    for (const diag::Diagnostic& d : s_.diagnostics.items()) found.push_back(&d);
    if (found.empty()) return;
    heading(t_.warnings, 3);
    const auto place = [](const diag::SourceSpan& where) { return fmt::format("{}:{}", where.file, where.line); };
    size_t shown = 0;
    for (const diag::Diagnostic* d : found) {
      if (shown++ == kMostRows) {
        out_ += "- " + fmt::format(fmt::runtime(t_.more), found.size() - kMostRows) + "\n";
        return;
      }
      std::string text = d->where ? place(*d->where) + ": " : std::string();
      text += shortened(d->message, kMostText);
      for (const diag::Note& note : d->notes)
        if (note.where) text += fmt::format(" ({})", place(*note.where));
      text += fmt::format(" [{}]", diag::rule_info(d->rule).slug);
      out_ += "- " + (style_ == TableStyle::kMarkdown ? escape_markdown(text) : one_line(text)) + "\n";
    }
  }

  const MatrixSummary& s_;
  TableStyle style_;
  const MatrixTexts& t_;
  std::string out_;
};

}  // namespace

std::string matrix_summary(const MatrixSummary& summary, TableStyle style, Language language) {
  return Writer(summary, style, language).run();
}

}  // namespace sweep::report
