// The closest peer's changelog processor and ours over its histories: the same verdicts and the same objects. Skipped
// where the data is not at hand.
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "orchestrator/base/file.h"
#include "orchestrator/diag/render.h"
#include "orchestrator/plan/changes.h"
#include "orchestrator/yaml/parse.h"
#include "tests/support/catch.h"
#include "tests/support/test_dir.h"

using namespace sweep;
namespace fs = std::filesystem;
using nlohmann::ordered_json;

namespace {

std::string text_of(const fs::path& path) {
  const auto text = base::read_file(path);
  REQUIRE(text.has_value());
  return *text;
}

schema::Checkout checkout_of(const fs::path& histories, const std::string& id, const std::string& revision) {
  const fs::path common = histories / "_common";
  schema::TextSelection files;
  const auto add = [&](const fs::path& path, schema::FileKind kind) {
    files.targets.push_back({path.filename().string(), path.filename().string(), text_of(path), kind});
  };
  add(common / "runners.yaml", schema::FileKind::kRunners);
  add(common / "amd-master.yaml", schema::FileKind::kMatrix);
  add(histories / id / (revision + ".nvidia-master.yaml"), schema::FileKind::kMatrix);
  return schema::load_texts(std::move(files));
}

// The rules that answer the reject codes of the peer's verdicts.
const std::map<std::string, std::string> kRules{
    {"no-addition", "changes/no-addition"},
    {"unknown-key", "changelog/key-matches-nothing"},
    {"append-curve-or-image", "changes/new-curve"},
    {"append-point-removed", "changes/point-removed"},
    {"append-recipe-changed", "changes/recipe-changed"},
    {"append-unrelated-change", "changes/unselected-entry"},
    {"append-mixed", "changes/mixed-modes"},
    {"append-scenario-set", "changes/scenario-set"},
    {"append-out-of-scope", "changes/unselected-scenario"},
    {"append-config-wide", "changes/entry-wide"},
    {"append-flags", "changelog/append-only-evals"},
};

bool has_rule(const diag::Diagnostics& diagnostics, const std::string& slug) {
  for (const diag::Diagnostic& d : diagnostics.items())
    if (d.severity == diag::Severity::kError && diag::rule_info(d.rule).slug == slug) return true;
  return false;
}

}  // namespace

TEST_CASE("changes: the peer's histories give the peer's verdicts and its bucketed rows") {
  const fs::path data = test::reference_data();
  if (data.empty()) SWEEP_SKIP("the peer's data is not beside the checkout");
  const fs::path histories = data / "inferencex" / "expected" / "changelog";
  const auto index = ordered_json::parse(text_of(histories / "index.json"));
  size_t compared = 0;
  for (const auto& [id, expected] : index.items()) {
    INFO(id);
    const std::string base_log = text_of(histories / id / "base.perf-changelog.yaml");
    const std::string head_log = text_of(histories / id / "head.perf-changelog.yaml");
    if (expected.value("code", "") == "deleted-line") {
      CHECK_FALSE(head_log.starts_with(base_log));  // refused by the rules over bytes, before any row is made
      ++compared;
      continue;
    }
    REQUIRE(head_log.starts_with(base_log));
    diag::Diagnostics decoding;
    std::vector<schema::ChangelogEntry> added;
    if (head_log.size() > base_log.size()) {
      const auto document = yaml::parse("perf-changelog.yaml", head_log.substr(base_log.size()), decoding);
      REQUIRE(document);
      added = schema::decode_changelog(document, decoding);
    }
    CHECK_FALSE(decoding.has_errors());
    const schema::Checkout base = checkout_of(histories, id, "base");
    const schema::Checkout head = checkout_of(histories, id, "head");
    const auto has_flag = [&, &answer = expected](const char* flag) {
      for (const auto& stated : answer["flags"])
        if (stated == flag) return true;
      return false;
    };
    const plan::Changes changes = plan::plan_changes({.head = head,
                                                      .base = &base,
                                                      .added = added,
                                                      .base_ref = "base",
                                                      .head_ref = "head",
                                                      .trim_conc = has_flag("--trim-conc"),
                                                      .all_evals = has_flag("--all-evals"),
                                                      .evals_only = has_flag("--evals-only")});
    INFO(diag::render_text(changes.diagnostics, head.sources));
    if (expected["verdict"] == "accept") {
      CHECK_FALSE(changes.diagnostics.has_errors());
      const auto ours = ordered_json::parse(changes.json, nullptr, false);
      const auto theirs = ordered_json::parse(text_of(histories / expected["out"].get<std::string>()));
      INFO(ours.dump());
      INFO(theirs.dump());
      CHECK((ours == theirs));
      CHECK(ours.dump() == theirs.dump());  // the order of fields, too
    } else {
      CHECK(changes.json.empty());
      const auto rule = kRules.find(expected["code"].get<std::string>());
      REQUIRE(rule != kRules.end());
      CHECK(has_rule(changes.diagnostics, rule->second));
    }
    ++compared;
  }
  CHECK(compared == 24);
}
