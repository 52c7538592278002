// The peer's verdict on every shared case about changelogs, and what the reported incidents ask for. Skipped where the
// data is not at hand.
#include <map>
#include <nlohmann/json.hpp>

#include "orchestrator/base/file.h"
#include "orchestrator/changelog/compare.h"
#include "orchestrator/schema/kinds.h"
#include "orchestrator/yaml/parse.h"
#include "tests/support/catch.h"
#include "tests/support/test_dir.h"
#include "tests/unit/changelog/entries.h"

using namespace sweep;
using test::messages;
namespace fs = std::filesystem;

namespace {

constexpr const char* kPeerRepository = "https://github.com/SemiAnalysisAI/InferenceX";

// Where we refuse what the peer takes, and why.
const std::map<std::string, std::string> kRefusedByUs{
    {"c_underscore.yaml",
     "config_keys for config-keys: the peer's own byte rules find entries by the dashed name, so such an entry passes "
     "one of its checks and fails the other"},
};

std::string text_of(const fs::path& path) {
  auto text = base::read_file(path);
  INFO(path.string());
  REQUIRE(text.has_value());
  return *std::move(text);
}

nlohmann::json json_of(const fs::path& path) {
  auto document = nlohmann::json::parse(text_of(path), nullptr, false);
  REQUIRE_FALSE(document.is_discarded());
  return document;
}

// A scalar of a case file; nothing for null.
std::optional<std::string> field(const fs::path& path, const char* name) {
  diag::Diagnostics out;
  const auto document = yaml::parse(path.string(), text_of(path), out);
  REQUIRE(document != nullptr);
  const yaml::Node* node = document->root().find(name);
  REQUIRE(node != nullptr);
  if (node->is_null() || (!node->quoted && node->text == "null")) return std::nullopt;
  return node->text;
}

// Whether we take the case; what we say about it goes to `out`.
bool takes(const fs::path& path, const std::string& kind, diag::Diagnostics& out) {
  if (kind == "changelog-diff") {
    const changelog::Revision base{"base", field(path, "base").value()};
    const changelog::Revision head{"head", field(path, "head").value()};
    return changelog::compare(base, head, {field(path, "pr-number"), kPeerRepository}, out).accepted;
  }
  if (kind == "changelog-file") return schema::read_changelog("file", field(path, "text").value(), out).valid;
  // The entry schema alone, without the file rules.
  const auto document = yaml::parse("file", text_of(path), out);
  if (document == nullptr) return false;
  schema::decode_changelog(document, out);
  return !out.has_errors();
}

struct Pair {
  changelog::Revision base;
  changelog::Revision head;
};

std::optional<Pair> incident(const std::string& name) {
  const fs::path data = test::reference_data();
  if (data.empty()) return std::nullopt;
  const fs::path folder = data / "cases_from_reports" / name;
  return Pair{{"base.yaml", text_of(folder / "base.yaml")}, {"head.yaml", text_of(folder / "head.yaml")}};
}

const diag::Diagnostic* find(const diag::Diagnostics& out, std::string_view slug) {
  for (const diag::Diagnostic& d : out.items())
    if (d.rule.info().slug == slug) return &d;
  return nullptr;
}

}  // namespace

TEST_CASE("peer cases: every changelog case gets the peer's verdict, but for listed deviations") {
  const fs::path data = test::reference_data();
  if (data.empty()) SWEEP_SKIP("the peer's cases are not beside the checkout");
  const fs::path folder = data / "inferencex/cases";
  size_t count = 0;
  for (const nlohmann::json& item : json_of(folder / "index.json")) {
    const auto kind = item["kind"].get<std::string>();
    if (!kind.starts_with("changelog-")) continue;
    ++count;
    const auto file = item["file"].get<std::string>();
    diag::Diagnostics out;
    const bool taken = takes(folder / file, kind, out);
    const bool peer = item["verdict"] == "accept";
    INFO(file << ": " << item["rule"].get<std::string>() << "\n" << messages(out));
    if (kRefusedByUs.contains(file)) {
      CHECK(peer);
      CHECK_FALSE(taken);
    } else {
      CHECK(taken == peer);
    }
    CHECK(taken != out.has_errors());
  }
  CHECK(count > 30);
}

TEST_CASE("peer cases: additions and corrections are counted as the peer counts them") {
  const fs::path data = test::reference_data();
  if (data.empty()) SWEEP_SKIP("the peer's cases are not beside the checkout");
  const fs::path folder = data / "inferencex/cases";
  for (const nlohmann::json& item : json_of(folder / "index.json")) {
    if (item["kind"] != "changelog-diff" || !item.contains("additions")) continue;
    const fs::path path = folder / item["file"].get<std::string>();
    INFO(path.string());
    diag::Diagnostics out;
    const auto result =
        changelog::compare(changelog::Revision{"base", field(path, "base").value()},
                           {"head", field(path, "head").value()}, {field(path, "pr-number"), kPeerRepository}, out);
    CHECK(result.entries(changelog::ChangeKind::kAdded).size() == item["additions"].get<size_t>());
    CHECK(result.entries(changelog::ChangeKind::kCorrected).size() == item["corrections"].get<size_t>());
  }
}

TEST_CASE("peer cases: the peer's whole changelog is valid, and intact against itself") {
  const fs::path data = test::reference_data();
  if (data.empty()) SWEEP_SKIP("the peer's changelog is not beside the checkout");
  const std::string text = text_of(data / "inferencex/perf-changelog.yaml");
  diag::Diagnostics out;
  const auto result = changelog::compare(changelog::Revision{"base", text}, {"head", text}, {}, out);
  INFO(messages(out));
  CHECK(result.accepted);
  CHECK(result.changes.empty());
  CHECK(result.head.entries.size() == 772);
  CHECK(result.repository == kPeerRepository);
}

TEST_CASE("incidents: a valid append is taken and names the key it triggers") {
  const auto pair = incident("changelog_valid_append");
  if (!pair) SWEEP_SKIP("the cases are not beside the checkout");
  diag::Diagnostics out;
  const auto result = changelog::compare(pair->base, pair->head, {}, out);
  INFO(messages(out));
  CHECK(result.accepted);
  CHECK(out.empty());
  const auto added = result.entries(changelog::ChangeKind::kAdded);
  REQUIRE(added.size() == 1);
  CHECK(added[0]->config_keys[0].value == "nimbusv4-fp4-b200-vllm");
}

TEST_CASE("incidents: a deleted entry is named, and the addition beside it is still seen") {
  const auto pair = incident("changelog_deleted_entry");
  if (!pair) SWEEP_SKIP("the cases are not beside the checkout");
  diag::Diagnostics out;
  const auto result = changelog::compare(pair->base, pair->head, {}, out);
  CHECK_FALSE(result.accepted);
  REQUIRE(out.items().size() == 1);
  const diag::Diagnostic& d = out.items()[0];
  CHECK(d.rule.info().slug == "changelog/entry-deleted");
  CHECK(d.message == "entry 2 (https://github.com/example-org/bench/pull/14: nimbusv4-fp8-h200-sglang) was deleted");
  CHECK(d.where->line == 7);  // of the head, where the next entry stands
  CHECK(d.notes[0].where->file == "base.yaml");
  CHECK(d.notes[0].where->line == 7);
  CHECK(result.entries(changelog::ChangeKind::kAdded).size() == 1);
}

TEST_CASE("incidents: an entry inserted in the middle is an insertion and nothing else") {
  const auto pair = incident("changelog_inserted_in_middle");
  if (!pair) SWEEP_SKIP("the cases are not beside the checkout");
  diag::Diagnostics out;
  const auto result = changelog::compare(pair->base, pair->head, {}, out);
  CHECK_FALSE(result.accepted);
  REQUIRE(out.items().size() == 1);
  CHECK(out.items()[0].rule.info().slug == "changelog/entry-inserted");
  CHECK(out.items()[0].path == "[1]");
  CHECK(out.items()[0].where->line == 7);
}

TEST_CASE("incidents: a placeholder is a warning on a pull request and refused on main") {
  const auto pair = incident("changelog_placeholder_link");
  if (!pair) SWEEP_SKIP("the cases are not beside the checkout");
  diag::Diagnostics on_request;
  CHECK(changelog::compare(pair->base, pair->head, {"23", {}}, on_request).accepted);
  REQUIRE(find(on_request, "changelog/link-placeholder") != nullptr);
  CHECK(on_request.warning_count() == 1);
  diag::Diagnostics on_main;
  CHECK_FALSE(changelog::compare(pair->base, pair->head, {}, on_main).accepted);
  REQUIRE(find(on_main, "changelog/link-placeholder") != nullptr);
  CHECK(on_main.error_count() == 1);
}

TEST_CASE("incidents: a tab and a carriage return are both named with their lines") {
  const auto pair = incident("changelog_tab_and_cr");
  if (!pair) SWEEP_SKIP("the cases are not beside the checkout");
  diag::Diagnostics out;
  CHECK_FALSE(changelog::compare(pair->base, pair->head, {}, out).accepted);
  CHECK(out.items().size() == 2);
  const auto* tab = find(out, "yaml/tab");
  const auto* carriage_return = find(out, "yaml/carriage-return");
  REQUIRE(tab != nullptr);
  REQUIRE(carriage_return != nullptr);
  CHECK(tab->where->line == 22);
  CHECK(carriage_return->where->line == 23);
}
