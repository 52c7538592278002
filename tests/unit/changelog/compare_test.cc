#include "orchestrator/changelog/compare.h"

#include "orchestrator/diag/rules.h"
#include "tests/support/catch.h"
#include "tests/unit/changelog/entries.h"

using namespace sweep;
using changelog::ChangeKind;
using test::entry;
using test::pull;

namespace {

const std::string kAddress = "https://github.com/o/n";

const std::string kA = entry("a", pull(1));
const std::string kB = entry("b", pull(2));
const std::string kC = entry("c", pull(3));
const std::string kNew = entry("new", pull(77));

struct Verdict {
  bool accepted = false;
  std::vector<std::string> rules;
  std::vector<diag::Diagnostic> items;
  changelog::Comparison comparison;
};

Verdict judge(const std::optional<std::string>& base, const std::string& head,
              const std::optional<std::string>& pull_request = "77", const std::string& repository = {}) {
  diag::Diagnostics out;
  std::optional<changelog::Revision> from;
  if (base) from = changelog::Revision{"base", *base};
  Verdict verdict;
  verdict.comparison = changelog::compare(from, {"head", head}, {pull_request, repository}, out);
  verdict.accepted = verdict.comparison.accepted;
  for (const diag::Diagnostic& d : out.items()) verdict.rules.emplace_back(d.rule.info().slug);
  verdict.items = out.items();
  return verdict;
}

using Rules = std::vector<std::string>;

size_t count(const Verdict& verdict, ChangeKind kind) {
  return verdict.comparison.entries(kind).size();
}

}  // namespace

TEST_CASE("compare: equal revisions and plain additions are taken in silence") {
  CHECK(judge(kA, kA).accepted);
  const std::string one = kA + "\n" + kNew;
  const std::string two = one + "\n" + kNew;
  for (const std::string& head : {one, two}) {
    const Verdict verdict = judge(kA, head);
    CHECK(verdict.accepted);
    CHECK(verdict.rules.empty());
  }
  CHECK(count(judge(kA, kA + "\n" + kNew), ChangeKind::kAdded) == 1);
}

TEST_CASE("compare: a base that ends with an empty line takes the next entry without another") {
  CHECK(judge(kA + "\n", kA + "\n" + kNew).accepted);
  CHECK(judge(kA + "\n", kA + "\n\n" + kNew).rules == Rules{"changelog/separator"});
}

TEST_CASE("compare: without a base everything is an addition, and a comment may open the file") {
  CHECK(judge(std::nullopt, kNew).accepted);
  const Verdict two = judge(std::nullopt, "# what changed\n\n" + kNew + "\n" + kNew);
  CHECK(two.accepted);
  CHECK(count(two, ChangeKind::kAdded) == 2);
  CHECK(judge(std::nullopt, kNew + kNew).rules == Rules{"changelog/separator"});
  CHECK(judge(std::nullopt, kNew + "\n").rules == Rules{"changelog/file-end"});
}

TEST_CASE("compare: a deleted entry is named, wherever it stood") {
  const std::string base = kA + "\n" + kB + "\n" + kC;
  const struct {
    std::string head;
    std::string name;
    uint32_t line;
  } cases[] = {{kB + "\n" + kC, "entry 1 (https://github.com/o/n/pull/1: a) was deleted", 1},
               {kA + "\n" + kC, "entry 2 (https://github.com/o/n/pull/2: b) was deleted", 7},
               {kA + "\n" + kB, "entry 3 (https://github.com/o/n/pull/3: c) was deleted", 12}};
  for (const auto& item : cases) {
    const Verdict verdict = judge(base, item.head);
    CHECK(verdict.rules == Rules{"changelog/entry-deleted"});
    CHECK(verdict.items[0].message == item.name);
    CHECK(verdict.items[0].where->file == "head");
    CHECK(verdict.items[0].where->line == item.line);
    CHECK(verdict.items[0].notes[0].where->file == "base");
  }
  CHECK(judge(base, kB).rules == Rules{"changelog/entry-deleted", "changelog/entry-deleted"});
}

TEST_CASE("compare: an entry put before old ones is an insertion, at the front and in the middle") {
  const std::string base = kA + "\n" + kB;
  const Verdict front = judge(base, kNew + "\n" + base);
  CHECK(front.rules == Rules{"changelog/entry-inserted"});
  CHECK(front.items[0].path == "[0]");
  const Verdict middle = judge(base, kA + "\n" + kNew + "\n" + kB);
  CHECK(middle.rules == Rules{"changelog/entry-inserted"});
  CHECK(middle.items[0].path == "[1]");
  CHECK(middle.items[0].where->line == 7);
  CHECK(contains(middle.items[0].message, "new entry 2 (https://github.com/o/n/pull/77: new)"));
}

TEST_CASE("compare: an entry of another order is moved, not deleted and inserted") {
  CHECK(judge(kA + "\n" + kB, kB + "\n" + kA).rules == Rules{"changelog/entry-moved"});
  CHECK(judge(kA + "\n" + kB + "\n" + kC, kB + "\n" + kC + "\n" + kA).rules == Rules{"changelog/entry-moved"});
}

TEST_CASE("compare: an entry that says something else is changed, whatever part of it") {
  const std::string other_text = entry("a", pull(1), "y");
  const std::string other_key = entry("a2", pull(1));
  const std::string more_fields = kA + "  append-only: false\n";
  const std::string rest = "\n" + kB;
  for (const std::string& head : {other_text, other_key, more_fields}) {
    INFO(head);
    const Verdict verdict = judge(kA + rest, head + rest);
    CHECK(verdict.rules == Rules{"changelog/entry-changed"});
    CHECK(verdict.items[0].path == "[0]");
  }
  // A field appended to the last entry leaves every byte of the base in place.
  CHECK(judge(kA, more_fields).rules == Rules{"changelog/entry-changed"});
}

TEST_CASE("compare: several violations are all reported at once, each by its own rule") {
  const Verdict verdict =
      judge(kA + "\n" + kB + "\n" + kC, entry("a", pull(1), "y") + "\n" + kNew + "\n" + kC + "\n" + entry("z", "XXX"));
  CHECK(verdict.rules == Rules{"changelog/entry-changed", "changelog/entry-inserted", "changelog/entry-deleted",
                               "changelog/link-placeholder"});
  CHECK(count(verdict, ChangeKind::kAdded) == 1);
}

TEST_CASE("compare: bytes of history count even where no entry says something else") {
  const std::string base = kA + "\n" + kB;
  const struct {
    std::string head;
    uint32_t line;
    uint32_t column;
  } cases[] = {
      {"# c\n" + base, 1, 1},         {entry("'a'", pull(1)) + "\n" + kB, 2, 7},
      {kA + "\n\n" + kB, 7, 1},       {kA + kB, 6, 1},
      {kA + "\n" + kB + "\n", 12, 1}, {kA + "\n" + kB + "# c\n", 12, 1},
      {kA + " \n" + kB, 6, 1},
  };
  for (const auto& item : cases) {
    INFO(item.head);
    const Verdict verdict = judge(base, item.head);
    CHECK(verdict.rules == Rules{"changelog/history-changed"});
    REQUIRE(verdict.items.size() == 1);
    CHECK(verdict.items[0].where->line == item.line);
    CHECK(verdict.items[0].where->column == item.column);
  }
  CHECK(judge(base, "# c\n" + base + "\n" + kNew).rules == Rules{"changelog/history-changed"});
  CHECK(judge(base + "# end\n", base).rules == Rules{"changelog/history-changed"});
}

TEST_CASE("compare: a link may be corrected, and nothing else with it") {
  const std::string base = entry("a", "XXX") + "\n" + entry("b", "XXX");
  const Verdict both = judge(base, entry("a", pull(1)) + "\n" + entry("b", pull(2)));
  CHECK(both.accepted);
  CHECK(count(both, ChangeKind::kCorrected) == 2);
  CHECK(judge(base, entry("a", " " + pull(1)) + "\n" + entry("b", "XXX")).accepted);
  CHECK(judge(kA, entry("a", pull(9))).accepted);  // also one good link by another
  CHECK(judge(base, entry("a", pull(1)) + "\n" + entry("b", "XXX") + "\n" + kNew).rules ==
        Rules{"changelog/mixed-correction"});
  CHECK(judge(base, entry("a", pull(1)) + "\n" + entry("'b'", "XXX")).rules == Rules{"changelog/history-changed"});
  CHECK(judge(base, entry("a", pull(1)) + "\n" + entry("b", "XXX") + "# c\n").rules ==
        Rules{"changelog/history-changed"});
  CHECK(judge(kA, entry("a", pull(1) + " # same")).rules == Rules{"changelog/history-changed"});
}

TEST_CASE("compare: a corrected link is a full link of the repository") {
  const std::string base = kB + "\n" + entry("a", "XXX");
  CHECK(judge(base, kB + "\n" + entry("a", pull(5))).accepted);
  CHECK(judge(base, kB + "\n" + entry("a", kAddress + "/pull/XXX")).rules == Rules{"changelog/link-placeholder"});
  CHECK(judge(base, kB + "\n" + entry("a", "TBD")).rules == Rules{"changelog/link-form"});
  CHECK(judge(base, kB + "\n" + entry("a", "https://github.com/x/y/pull/5")).rules ==
        Rules{"changelog/link-repository"});
}

TEST_CASE("compare: links that differ in place are corrections even between entries that say the same") {
  const std::string base = entry("a", pull(1)) + "\n" + entry("a", pull(2));
  const Verdict verdict = judge(base, entry("a", pull(2)) + "\n" + entry("a", pull(3)));
  CHECK(verdict.accepted);
  CHECK(count(verdict, ChangeKind::kCorrected) == 2);
}

TEST_CASE("compare: new links on a pull request are its own, or the placeholder with a warning") {
  const auto with = [](const std::string& link) { return judge(kA, kA + "\n" + entry("n", link)); };
  CHECK(with(pull(77)).rules.empty());
  for (const char* link : {"XXX", "https://github.com/o/n/pull/XXX"}) {
    const Verdict verdict = with(link);
    CHECK(verdict.accepted);
    CHECK(verdict.rules == Rules{"changelog/link-placeholder"});
  }
  CHECK(with(pull(78)).rules == Rules{"changelog/link-number"});
  CHECK(with(pull(78)).items[0].path == "[1].pr-link");
  CHECK(with(kAddress + "/pull/077").rules == Rules{"changelog/link-number"});
  CHECK(with("https://github.com/x/n/pull/77").rules == Rules{"changelog/link-repository"});
  CHECK(with("https://github.com/x/n/pull/XXX").rules == Rules{"changelog/link-repository"});
  for (const std::string& link :
       {pull(77) + "/", pull(77) + "/files", pull(77) + "#x", std::string("http://github.com/o/n/pull/77"),
        kAddress + "/issues/77", kAddress + "/pull/", std::string("\"\""), std::string("xxx"), std::string("TODO"),
        "\"" + pull(77) + " \"", std::string("https://github.com/o/pull/77"), kAddress + "/pull/\xEF\xBC\x97"}) {
    INFO(link);
    CHECK(with(link).rules == Rules{"changelog/link-form"});
  }
}

TEST_CASE("compare: on main a new link is full, with any number") {
  CHECK(judge(kA, kA + "\n" + entry("n", pull(4)), std::nullopt).accepted);
  CHECK(judge(kA, kA + "\n" + entry("n", "XXX"), std::nullopt).rules == Rules{"changelog/link-placeholder"});
  CHECK(judge(kA, kA + "\n" + entry("n", kAddress + "/pull/XXX"), std::nullopt).rules ==
        Rules{"changelog/link-placeholder"});
}

TEST_CASE("compare: before a pull request has a number only the placeholder fits, without a warning") {
  CHECK(judge(kA, kA + "\n" + entry("n", "XXX"), "XXX").rules.empty());
  CHECK(judge(kA, kA + "\n" + entry("n", pull(5)), "XXX").rules == Rules{"changelog/link-number"});
}

TEST_CASE(
    "compare: the repository is the one given, else the one the base agrees on, else that of the first new link") {
  const std::string other = entry("n", "https://github.com/x/y/pull/77");
  CHECK(judge(kA, kA + "\n" + other, "77", "https://github.com/x/y").accepted);
  CHECK(judge(kA, kA + "\n" + other).rules == Rules{"changelog/link-repository"});
  const std::string mixed = kA + "\n" + entry("b", "https://github.com/x/y/pull/3");
  CHECK(judge(mixed, mixed + "\n" + other).accepted);
  const std::string unknown = entry("a", "XXX");
  CHECK(judge(unknown, unknown + "\n" + other).accepted);
  CHECK(judge(unknown, unknown + "\n" + other + "\n" + kNew).rules == Rules{"changelog/link-repository"});
}

TEST_CASE("compare: new entries are set apart by exactly one empty line and end the file") {
  CHECK(judge(kA, kA + kNew).rules == Rules{"changelog/separator"});
  CHECK(judge(kA, kA + "\n\n" + kNew).rules == Rules{"changelog/separator"});
  CHECK(judge(kA, kA + "  \n" + kNew).rules == Rules{"changelog/separator"});
  CHECK(judge(kA, kA + "\n# why\n" + kNew).rules == Rules{"changelog/separator"});
  CHECK(judge(kA, kA + "\n" + kNew + kNew).rules == Rules{"changelog/separator"});
  CHECK(judge(kA, kA + "\n" + kNew + "\n\n" + kNew).rules == Rules{"changelog/separator"});
  CHECK(judge(kA, kA + "\n" + kNew + " \n" + kNew).rules == Rules{"changelog/separator"});
  CHECK(judge(kA, kA + "\n" + kNew + "\n# why\n" + kNew).rules == Rules{"changelog/separator"});
  CHECK(judge(kA, kA + "\n" + kNew + "# why\n\n" + kNew).accepted);
  CHECK(judge(kA, kA + "\n" + kNew + "# why\n").accepted);
  CHECK(judge(kA, kA + "\n" + kNew + "\n").rules == Rules{"changelog/file-end"});
  const Verdict comment = judge(kA, kA + "\n# why\n" + kNew);
  CHECK(contains(comment.items[0].message, "a comment stands between the history and new entry 2 ("));
  CHECK(comment.items[0].where->line == 8);
}

TEST_CASE("compare: a file that breaks its own rules is refused with the place, in the head and in the base") {
  CHECK(judge(kA, kA + "\n- config-keys: [\n").rules == Rules{"yaml/syntax"});
  const Verdict no_newline = judge(kA, (kA + "\n" + kNew).substr(0, (kA + "\n" + kNew).size() - 1));
  CHECK(no_newline.rules == Rules{"changelog/layout"});
  const std::string cut = kA.substr(0, kA.size() - 1);
  CHECK(judge(cut, kA + "\n" + kNew).rules == Rules{"changelog/layout"});
  CHECK(judge("{}\n", kA).rules == Rules{"schema/wrong-type", "changelog/history-changed"});
  CHECK(judge(kA, "\n").rules == Rules{"schema/wrong-type", "changelog/history-changed"});
}

TEST_CASE("compare: what is wrong with an intact history is said once") {
  const std::string base = entry("a", pull(1)) + "  unknown: 1\n";
  const Verdict verdict = judge(base, base + "\n" + kNew);
  CHECK(verdict.rules == Rules{"schema/unknown-field"});
  CHECK(verdict.items[0].where->file == "head");
}

TEST_CASE("compare: a head that is no YAML still tells whether history is whole") {
  const Verdict intact = judge(kA, kA + "\n\t- config-keys:\n");
  CHECK(intact.rules == Rules{"yaml/tab"});
  const Verdict cut = judge(kA + "\n" + kB, kA + "\n\tx\n");
  CHECK(cut.rules == Rules{"yaml/tab", "changelog/history-changed"});
}

TEST_CASE("compare: two rewritten histories of many entries are compared in bounded time") {
  std::string base;
  std::string head;
  for (int i = 0; i < 4000; ++i) {
    base += (i == 0 ? "" : "\n") + entry("a" + std::to_string(i), pull(i), "old" + std::to_string(i));
    head += (i == 0 ? "" : "\n") + entry("b" + std::to_string(i), pull(i + 10000), "new" + std::to_string(i));
  }
  const Verdict verdict = judge(base, head);
  CHECK_FALSE(verdict.accepted);
  CHECK(verdict.rules.size() >= 8000);
}
