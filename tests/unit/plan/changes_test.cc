#include "orchestrator/plan/changes.h"

#include <nlohmann/json.hpp>

#include "tests/unit/plan/small_matrix.h"

using namespace sweep;
using namespace sweep::test;
using nlohmann::json;
using Slugs = std::vector<std::string>;

namespace {

struct Flags {
  bool trim_conc = false;
  bool all_evals = false;
  bool evals_only = false;
  bool is_chunked = false;
};

plan::Changes changes_of(const std::vector<std::string>& entries, const Flags& flags = {},
                         const std::string& matrix = kMatrix) {
  const schema::Checkout head = small_checkout(matrix);
  REQUIRE_FALSE(head.diagnostics.has_errors());
  const auto added = changelog(entries);
  return plan::plan_changes({.head = head,
                             .added = added,
                             .base_ref = "base",
                             .head_ref = "head",
                             .trim_conc = flags.trim_conc,
                             .all_evals = flags.all_evals,
                             .evals_only = flags.evals_only,
                             .is_chunked = flags.is_chunked});
}

// "conc" of each row of a list.
std::string concurrencies(const json& rows) {
  std::string text;
  for (const json& row : rows) text += row["conc"].dump() + " ";
  return text;
}

struct Case {
  const char* name;
  std::string head_from, head_to;  // an edit of the head's matrix
  std::string fields;              // of the changelog entry
  const char* rule;                // empty: accepted
};

plan::Changes append_only(const Case& c, const std::string& base_matrix = kMatrix) {
  const schema::Checkout base = small_checkout(base_matrix);
  const schema::Checkout head = small_checkout(with(base_matrix, c.head_from, c.head_to));
  REQUIRE_FALSE(head.diagnostics.has_errors());
  const auto added = changelog({c.fields + ", append-only: true"});
  return plan::plan_changes({.head = head, .base = &base, .added = added, .base_ref = "base", .head_ref = "head"});
}

}  // namespace

TEST_CASE("changes: only a star is a wildcard, and keys come in their order without repeats") {
  const auto object = json::parse(changes_of({"config-keys: [m*, '*']"}).json);
  CHECK(object["multi_node"]["8k1k"].size() == 1);
  CHECK(object["single_node"]["8k1k"].size() == 3);
  for (const char* key : {"sing?e", "[s]ingle", "single "})
    CHECK(slugs(changes_of({std::string("config-keys: ['") + key + "']"}).diagnostics, diag::Severity::kError) ==
          Slugs{"changelog/key-matches-nothing"});
}

TEST_CASE("changes: a key that matches nothing is answered at its place with the nearest name") {
  const plan::Changes changes = changes_of({"config-keys: [singel]"});
  REQUIRE(changes.diagnostics.error_count() == 1);
  const diag::Diagnostic& d = changes.diagnostics.items().front();
  CHECK(d.where->line == 1);
  CHECK(contains(d.help, "did you mean \"single\"?"));
  CHECK(changes.json.empty());
}

TEST_CASE("changes: an all-evals entry goes first for evaluations, the metadata keeps the order of the file") {
  const auto object = json::parse(changes_of({"config-keys: [multi]", "config-keys: [multi], all-evals: true"}).json);
  REQUIRE(object["multinode_evals"].size() == 1);
  CHECK(object["multinode_evals"][0]["eval-all-concs"] == true);
  CHECK(object["multi_node"]["8k1k"].size() == 1);  // from the regular entry
  CHECK(object["changelog_metadata"]["entries"][0]["all-evals"] == false);
  CHECK(object["changelog_metadata"]["entries"][1]["all-evals"] == true);
}

TEST_CASE("changes: a later entry gets only the scenarios that no earlier one took") {
  const auto object =
      json::parse(changes_of({"config-keys: [single], scenario-type: [agentic-coding]", "config-keys: [single]"}).json);
  CHECK(object["single_node"]["agentic"].size() == 2);
  CHECK(object["single_node"]["8k1k"].size() == 3);
  CHECK(object["single_node"].dump().find("8k1k") < object["single_node"].dump().find("agentic"));  // sorted here
}

TEST_CASE("changes: throughput that an entry suppresses is still there for a later one") {
  const auto object =
      json::parse(changes_of({"config-keys: [single], evals-only: true", "config-keys: [single]"}).json);
  CHECK(object["single_node"]["8k1k"].size() == 3);
  CHECK(object["evals"].size() == 1);  // taken once
}

TEST_CASE("changes: eval-min-prefill-ep drops rows with a smaller prefill and leaves rows without one") {
  const auto few = json::parse(changes_of({"config-keys: ['*'], eval-min-prefill-ep: 5"}).json);
  CHECK(few["multinode_evals"].empty());
  CHECK(few["multi_node"]["8k1k"].size() == 1);
  CHECK(few["evals"].size() == 1);
  CHECK(few["changelog_metadata"]["entries"][0]["eval-min-prefill-ep"] == 5);
  CHECK(json::parse(changes_of({"config-keys: ['*'], eval-min-prefill-ep: 4"}).json)["multinode_evals"].size() == 1);
}

TEST_CASE("changes: trimming keeps the lowest concurrency of each recipe and leaves evaluations alone") {
  const auto object = json::parse(changes_of({"config-keys: ['*']"}, {.trim_conc = true}).json);
  CHECK(concurrencies(object["single_node"]["8k1k"]) == "4 ");
  CHECK(concurrencies(object["single_node"]["agentic"]) == "1 ");
  CHECK(concurrencies(object["multi_node"]["8k1k"]) == "[16] ");
  CHECK(object["multinode_evals"][0]["conc"] == json({64, 16}));
}

TEST_CASE("changes: flags suppress throughput and widen evaluations") {
  const auto only = json::parse(changes_of({"config-keys: ['*']"}, {.evals_only = true}).json);
  CHECK(only["single_node"].empty());
  CHECK(only["evals"].size() == 1);
  const auto all = json::parse(changes_of({"config-keys: ['*']"}, {.all_evals = true}).json);
  CHECK(all["single_node"]["8k1k"].size() == 3);
  CHECK(all["evals"].size() == 3);
}

TEST_CASE("changes: rows have one fingerprint a recipe, whatever the concurrency") {
  const auto rows = json::parse(changes_of({"config-keys: [single]"}).json)["single_node"]["8k1k"];
  CHECK(rows[0]["recipe-fingerprint"] == rows[2]["recipe-fingerprint"]);
  const auto other = json::parse(
      changes_of({"config-keys: [single]"}, {}, with(kMatrix, "img:1", "img:3")).json)["single_node"]["8k1k"];
  CHECK(rows[0]["recipe-fingerprint"] != other[0]["recipe-fingerprint"]);
}

TEST_CASE("changes: entries in progress are left out with a warning") {
  const plan::Changes changes = changes_of(
      {"config-keys: ['*']"}, {}, with(kMatrix, "  runner: gb200\n", "  runner: gb200\n  status: in-progress\n"));
  const auto object = json::parse(changes.json);
  CHECK(object["multi_node"].empty());
  CHECK(object["multinode_evals"].empty());
  CHECK(slugs(changes.diagnostics, diag::Severity::kWarning) == Slugs{"plan/in-progress"});
}

TEST_CASE("changes: a bucket that the peer's sweep has no job for is reported, unless chunks hold it") {
  const std::string matrix = with(kMatrix, "osl: 1024", "osl: 256");
  const plan::Changes changes = changes_of({"config-keys: [single]"}, {}, matrix);
  CHECK(json::parse(changes.json)["single_node"]["8192_256"].size() == 3);
  CHECK(slugs(changes.diagnostics, diag::Severity::kWarning) == Slugs{"plan/not-dispatched"});
  CHECK(changes_of({"config-keys: [single]"}, {.is_chunked = true}, matrix).diagnostics.empty());
  CHECK(changes_of({"config-keys: [single]"}).diagnostics.empty());
}

TEST_CASE("changes: a change without an entry, or with one that selects nothing, is not taken for success") {
  CHECK(slugs(changes_of({}).diagnostics, diag::Severity::kError) == Slugs{"changes/no-addition"});
  const plan::Changes changes = changes_of({"config-keys: [multi], scenario-type: [agentic-coding]"});
  CHECK(slugs(changes.diagnostics, diag::Severity::kWarning) == Slugs{"changes/selects-nothing"});
  CHECK(changes.count == 0);
  CHECK_FALSE(changes.json.empty());
}

TEST_CASE("changes: append-only entries stand alone, with a base and without evaluations") {
  const auto error = [](const plan::Changes& changes) { return slugs(changes.diagnostics, diag::Severity::kError); };
  const std::string append = "config-keys: [single], append-only: true";
  CHECK(error(changes_of({append})) == Slugs{"changes/base-missing"});
  const Slugs mixed = error(changes_of({append, "config-keys: [multi]"}));
  CHECK(std::count(mixed.begin(), mixed.end(), "changes/mixed-modes") == 1);
  const Slugs flagged = error(changes_of({append}, {.evals_only = true}));
  CHECK(std::count(flagged.begin(), flagged.end(), "changelog/append-only-evals") == 1);
}

TEST_CASE("changes: an append-only change may add points, and each other difference has its rule") {
  const std::string fixed = "config-keys: [single], scenario-type: [fixed-seq-len]";
  const std::string single = "config-keys: [single]";
  const std::vector<Case> cases{
      {"a concurrency more", "[4, 16, 64]", "[4, 16, 64, 128]", single, ""},
      {"a recipe more", "search-space:\n", "search-space:\n      - { tp: 4, conc-list: [4] }\n", single, ""},
      {"only the selected scenario", "[4, 16, 64]", "[4, 16, 64, 128]", fixed, ""},
      {"nothing new", "[4, 16, 64]", "[4, 64, 16]", single, "changes/no-new-point"},
      {"a concurrency less", "[4, 16, 64]", "[4, 64, 128]", single, "changes/point-removed"},
      {"another size", "ep: 8, conc-list: [4, 16, 64]", "ep: 4, conc-list: [4, 16, 64, 128]", single,
       "changes/recipe-changed"},
      {"another image", "img:1", "img:9", single, "changes/recipe-changed"},
      {"another entry", "img:2", "img:9", single, "changes/unselected-entry"},
      {"an entry less", "multi:\n", "other:\n", single, "changes/unselected-entry"},
      {"another scenario", "conc-list: [1, 8]", "conc-list: [1, 8, 9]", fixed, "changes/unselected-scenario"},
      {"a field for both scenarios", "precision: fp8", "precision: fp4", fixed, "changes/entry-wide"},
      {"a new method", "search-space:\n", "search-space:\n      - { tp: 8, spec-decoding: mtp, conc-list: [4] }\n",
       single, "changes/new-curve"},
      {"a new length", "fixed-seq-len:\n",
       "fixed-seq-len:\n    - { isl: 1024, osl: 1024, search-space: [{ tp: 8, conc-list: [4] }] }\n", single,
       "changes/new-curve"},
      {"a new entry", "single:\n", "fresh:\n", "config-keys: [fresh]", "changes/not-in-base"},
      {"no point before", "img:2", "img:2", "config-keys: [multi], scenario-type: [agentic-coding]",
       "changes/no-base-point"},
      {"a scenario less",
       "    agentic-coding:\n    - dram-utilization: 0.8\n      search-space:\n"
       "      - { tp: 8, kv-offloading: dram, kv-offload-backend: { name: b }, conc-list: [1, 8] }\n",
       "", single, "changes/scenario-set"},
  };
  for (const Case& c : cases) {
    INFO(c.name);
    const plan::Changes changes = append_only(c);
    const Slugs found = slugs(changes.diagnostics, diag::Severity::kError);
    if (*c.rule == '\0') {
      CHECK(found == Slugs{});
      CHECK(json::parse(changes.json)["evals"].empty());
      CHECK(changes.count == 1);
    } else {
      CHECK(std::count(found.begin(), found.end(), c.rule) >= 1);
      CHECK(changes.json.empty());
      for (const diag::Diagnostic& d : changes.diagnostics.items()) CHECK(d.where.has_value());
    }
  }
}

TEST_CASE("changes: a refusal says which field differs, at its line") {
  const plan::Changes changes =
      append_only({"", "img:2", "img:9", "config-keys: [single]", "changes/unselected-entry"});
  REQUIRE(changes.diagnostics.error_count() == 1);
  const diag::Diagnostic& d = changes.diagnostics.items().front();
  CHECK(contains(d.message, "image: \"img:2\" -> \"img:9\""));
  CHECK(d.path == "multi.image");
  CHECK(d.where->line == 20);
  CHECK(d.notes.size() == 1);  // where append-only is stated
}

TEST_CASE("changes: new points run the only image of their curve") {
  // A second entry on the same curve with another image: neither image is the curve's.
  std::string twin = std::string(kMatrix).substr(0, std::string(kMatrix).find("multi:\n"));
  twin = with(with(with(twin, "single:", "twin:"), "img:1", "img:3"), "tp: 8, ep: 8", "tp: 4, ep: 4");
  const plan::Changes changes = append_only({"", "[4, 16, 64]", "[4, 16, 64, 128]", "config-keys: [single, twin]", ""},
                                            std::string(kMatrix) + twin);
  CHECK(slugs(changes.diagnostics, diag::Severity::kError) == Slugs{"changes/curve-image"});
}

TEST_CASE("changes: of a multi-node row only the new concurrencies run, in the order of the file") {
  const plan::Changes changes = append_only({"", "[64, 16]", "[256, 64, 16, 8, 256]", "config-keys: [multi]", ""});
  const auto rows = json::parse(changes.json)["multi_node"]["8k1k"];
  REQUIRE(rows.size() == 1);
  CHECK(rows[0]["conc"] == json({256, 8}));
}
