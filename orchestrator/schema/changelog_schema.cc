// One entry of the changelog: which matrix entries a change asks to run, and why (InferenceX, perf-changelog.yaml).
#include "orchestrator/diag/rules/changelog.h"
#include "orchestrator/diag/rules/schema.h"
#include "orchestrator/schema/kinds.h"

namespace sweep::schema {

const ObjectShape& changelog_entry_shape() {
  static const ObjectShape shape{
      "a changelog entry",
      "What a change selects for measurement.",
      {field<&ChangelogEntry::config_keys>("config-keys", list(any_text(), 1), "matrix entries; \"*\" matches anything",
                                           Need::kRequired),
       field<&ChangelogEntry::description>("description", list(any_text(), 1), "what changed, for people",
                                           Need::kRequired),
       field<&ChangelogEntry::pr_link>("pr-link", any_text(), "link of the pull request; XXX until its number is known",
                                       Need::kRequired),
       field<&ChangelogEntry::evals_only>("evals-only", boolean(), "run evaluations only").by_default("false"),
       field<&ChangelogEntry::all_evals>("all-evals", boolean(), "run evaluations of every point").by_default("false"),
       field<&ChangelogEntry::append_only>("append-only", boolean(), "the change only adds points").by_default("false"),
       field<&ChangelogEntry::eval_min_prefill_ep>("eval-min-prefill-ep", integer(1).or_null(),
                                                   "evaluate only points with at least this prefill ep"),
       field<&ChangelogEntry::scenario_type>("scenario-type", list(choice_of<ScenarioKind>(), 1).or_null(),
                                             "scenario kinds; absent: all")},
      {{FieldRule::Kind::kExcludes,
        diag::rule::changelog_append_only_evals,
        {{{"evals-only", "true"}}, {{"all-evals", "true"}}, {{"eval-min-prefill-ep"}}},
        {"append-only", "true"}}}};
  return shape;
}

const Shape& changelog_file_shape() {
  static const Shape shape = list(object(changelog_entry_shape()));
  return shape;
}

namespace {

void check_changelog_entry(const ChangelogEntry& entry, diag::Diagnostics& out) {
  const bool evaluates = entry.evals_only.value || entry.all_evals.value || entry.eval_min_prefill_ep.present;
  if (entry.append_only.value && evaluates)
    out.add(diag::make_at(diag::rule::changelog_append_only_evals, entry.document->span(entry.append_only.where),
                          "\"append-only\" excludes evals-only, all-evals and eval-min-prefill-ep",
                          "append-only adds points and never evaluations"));
}

}  // namespace

std::vector<ChangelogEntry> decode_changelog(const DocumentPtr& document, diag::Diagnostics& out) {
  std::vector<ChangelogEntry> entries;
  Decoder decoder(*document, out);
  const yaml::Node& root = document->root();
  if (!root.is_sequence()) {
    decoder.report(diag::rule::schema_wrong_type, root.where,
                   "a changelog must be a list of entries, found " + yaml::describe(root));
    return entries;
  }
  entries.reserve(root.items.size());
  for (size_t i = 0; i < root.items.size(); ++i) {
    const Decoder::Scope scope(decoder, i, root.items[i].where);
    ChangelogEntry& entry = entries.emplace_back();
    entry.where = root.items[i].where;
    entry.document = document;
    decoder.read_object(root.items[i], changelog_entry_shape(), &entry);
    check_changelog_entry(entry, out);
  }
  return entries;
}

}  // namespace sweep::schema
