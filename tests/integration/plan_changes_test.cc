// `plan changes` and `plan summary` over real git repositories.
#include <nlohmann/json.hpp>

#include "orchestrator/base/file.h"
#include "orchestrator/exec/capture.h"
#include "tests/support/catch.h"
#include "tests/support/git_repository.h"

using namespace sweep;
using namespace sweep::test;
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

struct Answer {
  int code = 0;
  std::string out, err;
};

using Environment = std::vector<std::pair<std::string, std::string>>;

Answer sweepctl(const fs::path& root, std::vector<std::string> arguments, Environment environment = {}) {
  arguments.insert(arguments.begin(), SWEEPCTL_PROGRAMS "/sweepctl");
  arguments.insert(arguments.end(), {"--root", root.string()});
  exec::CommandSpec command{.argv = std::move(arguments),
                            .environment = std::move(environment),
                            .unset = {"GITHUB_ACTIONS", "GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY", "GITHUB_REPOSITORY"}};
  const auto ran = exec::capture(command, {}, {}, {});
  REQUIRE(ran.has_value());
  return {ran->status.code, ran->output, ran->errors};
}

constexpr const char* kEntry =
    "  image: img:1\n  model: acme/M\n  model-prefix: m\n  precision: fp8\n  framework: vllm\n  runner: h200\n"
    "  multinode: false\n"
    "  scenarios: { fixed-seq-len: [{ isl: 8192, osl: 1024, search-space: [{ tp: 8, conc-list: [4, 16] }] }] }\n";

std::string log_entry(const std::string& key, const std::string& more = {}) {
  return "- config-keys:\n  - " + key + "\n" + more +
         "  description:\n  - x\n  pr-link: https://github.com/o/n/pull/1\n";
}

// The layout of the peer, with one entry and one line of history.
void write_peer_layout(const GitRepository& repository) {
  repository.write("configs/amd-master.yaml", "a:\n" + std::string(kEntry));
  repository.write("configs/nvidia-master.yaml", "n:\n" + std::string(kEntry));
  repository.write("configs/runners.yaml", "labels: { h200: [h200_0] }\n");
  repository.write("perf-changelog.yaml", log_entry("a"));
  repository.commit("base");
}

void append(const GitRepository& repository, const std::string& name, const std::string& text) {
  repository.write(name, base::read_file(repository / name).value() + text);
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("plan changes: the entries that a branch appends select rows, at a commit and in the working tree") {
  const GitRepository repository;
  write_peer_layout(repository);
  repository.git({"checkout", "-q", "-b", "topic"});
  append(repository, "perf-changelog.yaml", "\n" + log_entry("'*'"));
  const Answer working = sweepctl(repository.path(), {"plan", "changes", "--base", "main"});
  INFO(working.err);
  REQUIRE(working.code == 0);
  const json object = json::parse(working.out);
  CHECK(object["single_node"]["8k1k"].size() == 4);
  CHECK(object["evals"].size() == 2);
  CHECK(object["changelog_metadata"]["base_ref"] == "main");
  CHECK(sweepctl(repository.path(), {"plan", "changes", "--base", "main", "--head", "topic"}).code == 1);
  repository.commit("head");
  const Answer committed = sweepctl(repository.path(), {"plan", "changes", "--base", "main", "--head", "topic"});
  CHECK(json::parse(committed.out)["single_node"] == object["single_node"]);
}

TEST_CASE("plan changes: a branch that is behind is compared with where it left") {
  const GitRepository repository;
  write_peer_layout(repository);
  repository.git({"checkout", "-q", "-b", "topic"});
  append(repository, "perf-changelog.yaml", "\n" + log_entry("a"));
  repository.commit("head");
  repository.git({"checkout", "-q", "main"});
  append(repository, "perf-changelog.yaml", "\n" + log_entry("n"));
  repository.commit("newer");
  const Answer ran = sweepctl(repository.path(), {"plan", "changes", "--base", "main", "--head", "topic"});
  CHECK(ran.code == 0);
  CHECK(json::parse(ran.out)["single_node"]["8k1k"].size() == 2);
  CHECK(contains(ran.err, "[changelog/behind]"));
}

TEST_CASE("plan changes: history that changed is refused, blank lines and layout are only reported") {
  const GitRepository repository;
  write_peer_layout(repository);
  const std::string log = base::read_file(repository / "perf-changelog.yaml").value();
  repository.write("perf-changelog.yaml", replaced(log, "  - a", "  - n") + "\n" + log_entry("'*'"));
  const Answer changed = sweepctl(repository.path(), {"plan", "changes", "--base", "main"});
  CHECK(changed.code == 1);
  INFO(changed.err);
  CHECK(contains(changed.err, "[changelog/entry-changed]"));
  repository.write("perf-changelog.yaml", log + log_entry("a"));
  CHECK(sweepctl(repository.path(), {"plan", "changes", "--base", "main"}).code == 0);
  repository.write("perf-changelog.yaml", log + "\n\n\n" + log_entry("a"));
  const Answer blank = sweepctl(repository.path(), {"plan", "changes", "--base", "main"});
  CHECK(blank.code == 0);
  CHECK(contains(blank.err, "warning"));
}

TEST_CASE("plan changes: links are judged where the pull request is known") {
  const GitRepository repository;
  write_peer_layout(repository);
  append(repository, "perf-changelog.yaml", "\n" + log_entry("a"));
  CHECK(sweepctl(repository.path(), {"plan", "changes", "--base", "main"}).code == 0);
  CHECK(sweepctl(repository.path(), {"plan", "changes", "--base", "main", "--pr", "1"}).code == 0);
  const Answer other = sweepctl(repository.path(), {"plan", "changes", "--base", "main", "--pr", "7"});
  CHECK(other.code == 1);
  CHECK(contains(other.err, "[changelog/link-number]"));
}

TEST_CASE("plan changes: append-only rows are those that the base's matrix and runners do not give") {
  const GitRepository repository;
  write_peer_layout(repository);
  repository.write("configs/amd-master.yaml", "a:\n" + replaced(kEntry, "[4, 16]", "[4, 16, 64]"));
  append(repository, "perf-changelog.yaml", "\n" + log_entry("a", "  append-only: true\n"));
  const Answer added = sweepctl(repository.path(), {"plan", "changes", "--base", "main"});
  INFO(added.err);
  REQUIRE(added.code == 0);
  const json rows = json::parse(added.out)["single_node"]["8k1k"];
  REQUIRE(rows.size() == 1);
  CHECK(rows[0]["conc"] == 64);
  repository.write("configs/nvidia-master.yaml", "n:\n" + replaced(kEntry, "img:1", "img:2"));
  const Answer other = sweepctl(repository.path(), {"plan", "changes", "--base", "main"});
  CHECK(other.code == 1);
  CHECK(contains(other.err, "configs/nvidia-master.yaml:2:10: error: entry \"n\" is changed"));
}

TEST_CASE("plan changes: our layout is found below a folder of the repository, too") {
  const GitRepository repository;
  repository.write("sub/matrix/x.yaml", "x:\n" + std::string(kEntry));
  repository.write("sub/matrix/runners.yaml", "labels: { h200: [h200_0] }\n");
  repository.write("sub/recipes/.keep", "");
  repository.write("sub/changelog/perf-changelog.yaml", log_entry("x"));
  repository.commit("base");
  append(repository, "sub/changelog/perf-changelog.yaml", "\n" + log_entry("x"));
  const Answer ran = sweepctl(repository / "sub", {"plan", "changes", "--base", "main"});
  INFO(ran.err);
  REQUIRE(ran.code == 0);
  CHECK(json::parse(ran.out)["single_node"]["8k1k"].size() == 2);
}

TEST_CASE("plan changes: --github appends chunks, a gate and a table to the files of the step") {
  const GitRepository repository;
  write_peer_layout(repository);
  append(repository, "perf-changelog.yaml", "\n" + log_entry("'*'"));
  const TestDir step;
  const fs::path output = step.write("output", "before=1\n");
  const Environment environment{{"GITHUB_OUTPUT", output.string()},
                                {"GITHUB_STEP_SUMMARY", (step / "summary").string()}};
  const Answer ran = sweepctl(repository.path(), {"plan", "changes", "--base", "main", "--github"}, environment);
  INFO(ran.err);
  REQUIRE(ran.code == 0);
  const std::string text = step.read("output");
  CHECK(text.starts_with("before=1\n"));
  CHECK(contains(text, "row-count<<sweepctl_end_0\n6\nsweepctl_end_0\n"));
  CHECK(contains(text, "chunks<<sweepctl_end_0\n[\"single_node_8k1k_1\",\"evals_1\"]\n"));
  CHECK(contains(text, "{\"id\":\"evals_1\",\"bucket\":\"evals\",\"rows\":2}"));
  CHECK(contains(step.read("summary"), "| `single_node/8k1k` | 4 | 1 |"));
  const Answer files = sweepctl(
      repository.path(), {"plan", "changes", "--base", "main", "--github", "--chunk-dir", (step / "chunks").string()},
      environment);
  CHECK(files.code == 0);
  CHECK(json::parse(step.read("chunks/single_node_8k1k_1.json")).size() == 4);
  CHECK(json::parse(step.read("chunks/gate.json")).size() == 2);
}

TEST_CASE("plan changes: what git cannot answer exits with 3, what the inputs lack with 1") {
  const GitRepository repository;
  write_peer_layout(repository);
  CHECK(sweepctl(repository.path(), {"plan", "changes", "--base", "nowhere"}).code == 3);
  CHECK(sweepctl(repository.path(), {"plan", "changes"}).code == 2);
  const Answer none = sweepctl(repository.path(), {"plan", "changes", "--base", "main"});
  CHECK(none.code == 1);
  CHECK(contains(none.err, "[changes/no-addition]"));
}

TEST_CASE("plan summary: the difference to a base is counted, in Markdown, in Chinese and as JSON") {
  const GitRepository repository;
  write_peer_layout(repository);
  repository.write("configs/amd-master.yaml", "a:\n" + replaced(kEntry, "[4, 16]", "[4, 32]"));
  const Answer markdown = sweepctl(repository.path(), {"plan", "summary", "--base", "main", "--lang", "en,zh"});
  INFO(markdown.err);
  REQUIRE(markdown.code == 0);
  CHECK(contains(markdown.out, "points added: 1; removed: 1; changed: 0"));
  CHECK(contains(markdown.out, "| a | 8k1k tp8 | 32 | 16 |  |  |"));
  CHECK(contains(markdown.out, "| h200 | h200 | 4 | 4 |"));
  CHECK(contains(markdown.out, "| unknown |"));
  CHECK(contains(markdown.out, "## 矩阵概览"));
  const json document =
      json::parse(sweepctl(repository.path(), {"plan", "summary", "--base", "main", "--format", "json"}).out);
  CHECK(document["schema_version"] == 1);
  CHECK(document["changes"]["added"] == 1);
  CHECK(document["changes"]["recipes"][0]["removed"] == json({16}));
  CHECK(document["runners"][0]["gpu_hours_at_most"].is_null());
}
