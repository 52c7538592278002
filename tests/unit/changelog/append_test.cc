#include "orchestrator/changelog/append.h"

#include "orchestrator/diag/rules/changelog.h"
#include "tests/support/catch.h"

using namespace sweep;

namespace {

const std::string kOld =
    "# history\n- config-keys:\n    - a\n  description:\n    - 'x'\n  pr-link: https://github.com/o/n/pull/1\n";

changelog::Revision current(const std::string& text = kOld) {
  return {"f.yaml", text};
}

changelog::NewEntry small(const std::string& link = "XXX") {
  return {.config_keys = {"b"}, .description = {"y"}, .pr_link = link};
}

}  // namespace

TEST_CASE("append: existing bytes stay, the entry follows after one empty line") {
  diag::Diagnostics out;
  const auto text = changelog::append_entry(current(), small(), {"XXX", {}}, out);
  REQUIRE(text.has_value());
  CHECK(out.empty());
  CHECK(*text == kOld + "\n- config-keys:\n    - b\n  description:\n    - \"y\"\n  pr-link: XXX\n");
  CHECK(changelog::append_entry(current(kOld + "\n"), small(), {"XXX", {}}, out).value() == *text);
  CHECK(changelog::append_entry(std::nullopt, small(), {"XXX", {}}, out).value() == text->substr(kOld.size() + 1));
}

TEST_CASE("append: every field is written in the order of the schema") {
  changelog::NewEntry entry = small("https://github.com/o/n/pull/7");
  entry.evals_only = true;
  entry.all_evals = true;
  entry.eval_min_prefill_ep = 4;
  entry.scenario_types = {"fixed-seq-len", "agentic-coding"};
  CHECK(changelog::to_yaml(entry).value() ==
        "- config-keys:\n    - b\n  description:\n    - \"y\"\n  pr-link: https://github.com/o/n/pull/7\n"
        "  evals-only: true\n  all-evals: true\n  eval-min-prefill-ep: 4\n"
        "  scenario-type:\n    - fixed-seq-len\n    - agentic-coding\n");
}

TEST_CASE("append: keys and links are quoted only where a reader could see something else") {
  changelog::NewEntry entry = small();
  entry.config_keys = {"a-fp8_1.5", "dsv4*", "*", "true", "1.5", "1e3", "a b", "a: b", "a#b", "-a", "", "2026-01-01"};
  CHECK(changelog::to_yaml(entry).value() ==
        "- config-keys:\n    - a-fp8_1.5\n    - dsv4*\n    - \"*\"\n    - \"true\"\n    - \"1.5\"\n    - \"1e3\"\n"
        "    - \"a b\"\n    - \"a: b\"\n    - \"a#b\"\n    - \"-a\"\n    - \"\"\n    - \"2026-01-01\"\n"
        "  description:\n    - \"y\"\n  pr-link: XXX\n");
}

TEST_CASE("append: text in quotes is escaped where it would be invisible or end the scalar") {
  CHECK(changelog::quoted_scalar("a \"b\" \\ c") == "\"a \\\"b\\\" \\\\ c\"");
  CHECK(changelog::quoted_scalar("1\n2\t3\r4") == "\"1\\n2\\t3\\x0D4\"");
  CHECK(changelog::quoted_scalar("\xc3\xa9 \xf0\x9f\x99\x82") == "\"\xc3\xa9 \xf0\x9f\x99\x82\"");
  CHECK(changelog::quoted_scalar("\xc2\x85\xe2\x80\xa8\xe2\x80\xae\xef\xbb\xbf\xf0\x9f\xbf\xbf") ==
        "\"\\x85\\u2028\\u202E\\uFEFF\\U0001FFFF\"");
  CHECK(changelog::quoted_scalar(std::string_view("\0", 1)) == "\"\\x00\"");
}

TEST_CASE("append: a file that breaks its rules is left alone, with the reasons") {
  diag::Diagnostics out;
  CHECK_FALSE(changelog::append_entry(current("- config-keys: [a]\n"), small(), {"XXX", {}}, out).has_value());
  CHECK(out.has_errors());
  diag::Diagnostics cut;
  CHECK_FALSE(changelog::append_entry(current(kOld.substr(0, kOld.size() - 1)), small(), {"XXX", {}}, cut).has_value());
  REQUIRE(cut.items().size() == 1);
  CHECK(cut.items()[0].rule == diag::rule::changelog_layout);
}

TEST_CASE("append: an entry that would not pass the check is not written") {
  const auto refused = [](const changelog::NewEntry& entry, const std::string& slug) {
    diag::Diagnostics out;
    CHECK_FALSE(changelog::append_entry(current(), entry, {"7", {}}, out).has_value());
    REQUIRE_FALSE(out.empty());
    CHECK(out.items()[0].rule.info().slug == slug);
  };
  refused(small("https://github.com/x/y/pull/7"), "changelog/link-repository");
  refused(small("https://github.com/o/n/pull/8"), "changelog/link-number");
  refused(small("somewhere"), "changelog/link-form");
  changelog::NewEntry both = small();
  both.append_only = true;
  both.evals_only = true;
  refused(both, "changelog/append-only-evals");
  changelog::NewEntry bytes = small();
  bytes.description = {"\xff"};
  refused(bytes, "changelog/bad-entry");
  changelog::NewEntry empty = small();
  empty.description.clear();
  refused(empty, "schema/wrong-type");
}
