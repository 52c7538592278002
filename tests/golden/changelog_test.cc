// Pairs of revisions with the exact text that `changelog check` says about them.
#include "orchestrator/base/file.h"
#include "orchestrator/changelog/compare.h"
#include "orchestrator/diag/render.h"
#include "tests/golden/golden.h"
#include "tests/support/catch.h"

namespace fs = std::filesystem;
using namespace sweep;

namespace {

std::optional<changelog::Revision> revision(const char* name) {
  auto text = base::read_file(name);
  if (!text) return std::nullopt;
  return changelog::Revision{name, *std::move(text)};
}

}  // namespace

TEST_CASE("changelog: pairs of revisions give exactly the expected text") {
  const fs::path pairs = testing::golden_folder() / "changelog";
  size_t count = 0;
  for (const fs::directory_entry& pair : fs::directory_iterator(pairs)) {
    if (!pair.is_directory()) continue;
    ++count;
    const testing::CurrentFolder folder(pair.path());
    const std::string name = pair.path().filename().string();
    INFO(name);
    const auto base = revision("base.yaml");
    const auto head = revision("head.yaml");
    REQUIRE(head.has_value());
    changelog::Policy policy;
    if (!name.ends_with("-main")) policy.pull_request = "77";
    diag::Diagnostics out;
    const auto result = changelog::compare(base, *head, policy, out);
    out.normalise();
    diag::SourceMap sources;
    if (base) sources.add(base->name, base->text);
    sources.add(head->name, head->text);
    if (name.starts_with("ok-")) {
      CHECK(result.accepted);
      CHECK(out.empty());
      continue;
    }
    CHECK(contains(diag::render_text(out, sources), "[changelog/"));
    testing::check_golden(pairs / (name + ".out"), diag::render_text(out, sources) + diag::count_text(out) + "\n");
  }
  CHECK(count > 10);
}
