// Random histories: legal appends are always taken, and no change of an old byte ever is.
#include <fmt/format.h>

#include "orchestrator/base/rng.h"
#include "orchestrator/changelog/append.h"
#include "tests/support/catch.h"
#include "tests/unit/changelog/entries.h"

using namespace sweep;
using test::messages;

namespace {

class Histories {
 public:
  explicit Histories(uint64_t seed) : random_(seed) {}

  uint64_t below(uint64_t limit) { return random_.below(limit); }

  std::string word() {
    static const std::vector<std::string> kWords{"a",
                                                 "#",
                                                 ": ",
                                                 "- b",
                                                 "\"",
                                                 "\\",
                                                 "'",
                                                 "\xc3\xa9",
                                                 "x: y",
                                                 " ",
                                                 "{",
                                                 "]",
                                                 "*z",
                                                 "&q",
                                                 "!t",
                                                 "true",
                                                 "1e3",
                                                 "~",
                                                 "",
                                                 "%",
                                                 "@",
                                                 "`",
                                                 "| ",
                                                 "> ",
                                                 "\n",
                                                 "XXX",
                                                 "null",
                                                 "0x1",
                                                 "=",
                                                 "\xf0\x9f\x99\x82",
                                                 "- config-keys:",
                                                 "\t"};
    return kWords[below(kWords.size())];
  }
  std::string text() {
    std::string result;
    for (uint64_t i = below(5); i-- > 0;) result += word();
    return result;
  }

  changelog::NewEntry entry(const std::string& link) {
    changelog::NewEntry result{.config_keys = {}, .description = {}, .pr_link = link};
    for (uint64_t i = 1 + below(3); i-- > 0;) result.config_keys.push_back("k" + word());
    for (uint64_t i = 1 + below(3); i-- > 0;) result.description.push_back(text());
    result.evals_only = below(4) == 0;
    if (!result.evals_only) result.append_only = below(4) == 0;
    if (below(4) == 0) result.scenario_types = {"agentic-coding"};
    if (!result.append_only && below(4) == 0) result.eval_min_prefill_ep = static_cast<int64_t>(1 + below(64));
    return result;
  }

 private:
  base::SplitMix64 random_;
};

const std::string kRepository = "https://github.com/o/n";

changelog::Policy policy_of(uint64_t number) {
  return {std::to_string(number), kRepository};
}

}  // namespace

TEST_CASE("property: random appends are always taken, and what was written is read back") {
  Histories random(7);
  for (int round = 0; round < 60; ++round) {
    std::optional<changelog::Revision> current;
    for (uint64_t number = 1; number < 6; ++number) {
      const changelog::NewEntry entry = random.entry(changelog::link_to(kRepository, std::to_string(number)));
      diag::Diagnostics out;
      const auto text = changelog::append_entry(current, entry, policy_of(number), out);
      INFO(messages(out));
      REQUIRE(text.has_value());
      CHECK(out.empty());
      const auto file = schema::read_changelog("changelog", *text, out);
      REQUIRE(file.valid);
      REQUIRE(file.entries.size() == number);
      const schema::ChangelogEntry& last = file.entries.back();
      REQUIRE(last.description.size() == entry.description.size());
      for (size_t i = 0; i < entry.description.size(); ++i) CHECK(last.description[i].value == entry.description[i]);
      for (size_t i = 0; i < entry.config_keys.size(); ++i) CHECK(last.config_keys[i].value == entry.config_keys[i]);
      CHECK(last.append_only.value == entry.append_only);
      current = changelog::Revision{"changelog", *text};
    }
  }
}

TEST_CASE("property: no single change of an old byte is taken beside an addition, nor alone except in a link") {
  Histories random(11);
  for (int round = 0; round < 40; ++round) {
    std::optional<changelog::Revision> current;
    diag::Diagnostics ignored;
    for (uint64_t number = 1; number < 4; ++number)
      current = changelog::Revision{
          "changelog",
          changelog::append_entry(current, random.entry(changelog::link_to(kRepository, std::to_string(number))),
                                  policy_of(number), ignored)
              .value()};
    const std::string& base = current->text;
    const std::string head =
        changelog::append_entry(current, random.entry(changelog::link_to(kRepository, "9")), policy_of(9), ignored)
            .value();
    for (int mutation = 0; mutation < 60; ++mutation) {
      std::string old = base;
      const size_t at = random.below(old.size());
      switch (random.below(3)) {
        case 0:
          old.erase(at, 1);
          break;
        case 1:
          old.insert(at, 1, static_cast<char>("a\n #-:'\"0X"[random.below(10)]));
          break;
        default:
          old[at] = static_cast<char>("a\n #-:'\"0X"[random.below(10)]);
      }
      if (old == base) continue;
      diag::Diagnostics out;
      INFO(base << "-----\n" << old);
      CHECK_FALSE(changelog::compare(current, {"head", old + head.substr(base.size())}, policy_of(9), out).accepted);
      diag::Diagnostics alone;
      if (!changelog::compare(current, {"head", old}, policy_of(9), alone).accepted) continue;
      const size_t line = base.rfind('\n', at == 0 ? 0 : at - 1);
      CHECK(base.substr(line + 1).starts_with("  pr-link:"));
    }
  }
}
