// Small fragments with the verdict of the closest peer's validator and generator: ours is the same, and the field at
// fault is named, except for the differences that orchestrator/README.md gives reasons for. Skipped where the data is
// not at hand.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "orchestrator/base/file.h"
#include "orchestrator/base/temp_dir.h"
#include "orchestrator/exec/process.h"
#include "tests/support/catch.h"
#include "tests/support/test_dir.h"

using namespace sweep;
using namespace std::chrono_literals;
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

// Where our verdict differs, by the kind of difference in orchestrator/README.md.
const std::map<std::string, std::string> kDeviations{
    {"m_underscore_name.yaml", "underscore spellings"},
    {"m_isl_negative.yaml", "impossible sizes"},
    {"m_osl_whole_float.yaml", "spellings that readers disagree on"},
    {"m_dpattn_yes.yaml", "spellings that readers disagree on"},
    {"m_dpattn_one.yaml", "spellings that readers disagree on"},
    {"m_disagg_text.yaml", "spellings that readers disagree on"},
    {"f_yaml_yes.yaml", "spellings that readers disagree on"},
    {"f_yaml_sexagesimal.yaml", "spellings that readers disagree on"},
    {"f_dup_key_in_file.yaml", "repeated keys"},
    {"f_dup_field.yaml", "repeated keys"},
    {"a_single_with_workers.yaml", "points that do not fit multinode"},
    {"a_multi_with_tp.yaml", "points that do not fit multinode"},
    {"g_crash_null_fixed.yaml", "empty scenarios"},
};
// Same verdict, other rows.
const std::set<std::string> kOtherRows{"g_empty_list_test.yaml"};

fs::path cases_folder() {
  const fs::path data = test::reference_data();
  return data.empty() ? fs::path() : data / "inferencex" / "cases";
}

struct Ran {
  int code = 0;
  std::string output;

  // The job matrix is the last line; warnings stand before it.
  json rows() const {
    const size_t end = output.find_last_not_of('\n');
    const size_t begin = end == std::string::npos ? 0 : output.rfind('\n', end) + 1;
    return json::parse(output.substr(begin), nullptr, false);
  }
};

// In a folder that is no checkout, so that nothing but the named files counts.
class Sweepctl {
 public:
  Sweepctl() { fs::current_path(folder_.path()); }
  ~Sweepctl() { fs::current_path(before_); }

  Ran operator()(const std::vector<std::string>& arguments) const {
    std::vector<std::string> argv = {SWEEPCTL_PROGRAMS "/sweepctl"};
    argv.insert(argv.end(), arguments.begin(), arguments.end());
    const fs::path output = folder_.path() / "output";
    fs::remove(output);
    const auto status =
        exec::run(
            {.argv = std::move(argv), .environment = {{"GITHUB_ACTIONS", ""}, {"SWEEPCTL_ROOT", ""}}, .output = output},
            1min, {})
            .value();
    return {status.signal != 0 ? 128 + status.signal : status.code, base::read_file(output).value()};
  }

 private:
  base::TempDir folder_ = base::TempDir::create().value();
  fs::path before_ = fs::current_path();
};

json read_json(const fs::path& path) {
  const auto text = base::read_file(path);
  REQUIRE(text.has_value());
  return json::parse(*text, nullptr, false);
}

std::string last_part(const std::string& path) {
  const size_t dot = path.rfind('.');
  return dot == std::string::npos ? path : path.substr(dot + 1);
}

// Whether a diagnostic points at the field or names it.
bool names(const json& diagnostics, const std::string& fault) {
  const std::string field = last_part(fault);
  if (field.empty() || field.starts_with("<")) return !diagnostics.empty();
  const bool is_index = std::all_of(field.begin(), field.end(), [](char c) { return c >= '0' && c <= '9'; });
  return std::any_of(diagnostics.begin(), diagnostics.end(), [&](const json& d) {
    const std::string path = d["path"];
    return contains(path, is_index ? "[" + field + "]" : field) || contains(d["message"].get<std::string>(), field);
  });
}

// One of `fields` where the peer points at a container or nowhere, else every fault that the peer lists.
bool covers(const json& diagnostics, const json& one) {
  if (one.contains("fields")) {
    const json& fields = one["fields"];
    return std::any_of(fields.begin(), fields.end(), [&](const json& f) { return names(diagnostics, f); });
  }
  const json faults = one.value("faults", json::array());
  return std::all_of(faults.begin(), faults.end(), [&](const json& f) { return names(diagnostics, f); });
}

void check_verdict(const json& one, bool accepted, const std::string& said) {
  const std::string file = one["file"];
  INFO(file << ": " << one["rule"].get<std::string>() << "\n" << said);
  const bool peer = one["verdict"] == "accept";
  if (kDeviations.contains(file))
    CHECK(accepted != peer);  // a difference that is gone must leave the table
  else
    CHECK(accepted == peer);
}

std::optional<std::string> kind_of(const std::string& kind) {
  if (kind == "master" || kind == "master-pair") return "matrix";
  if (kind == "runners") return "runners";
  if (kind.starts_with("row-")) return "row";
  return std::nullopt;
}

}  // namespace

TEST_CASE("peer cases: files and rows get the peer's verdict, and the fields at fault are named") {
  const fs::path folder = cases_folder();
  if (folder.empty()) SWEEP_SKIP("the peer's cases are not beside the checkout");
  const Sweepctl sweepctl;
  size_t count = 0;
  for (const json& one : read_json(folder / "index.json")) {
    const auto kind = kind_of(one["kind"]);
    if (!kind) continue;
    ++count;
    std::vector<std::string> arguments = {"--format", "json", "validate", "--kind", *kind};
    for (const char* file : {"file", "file2"})
      if (one.contains(file)) arguments.push_back((folder / one[file].get<std::string>()).string());
    const Ran ran = sweepctl(arguments);
    INFO(ran.output);
    REQUIRE((ran.code == 0 || ran.code == 1));
    check_verdict(one, ran.code == 0, ran.output);
    if (ran.code == 0 || one["verdict"] == "accept") continue;
    const json document = json::parse(ran.output, nullptr, false);
    REQUIRE(document.is_object());
    INFO(one["file"].get<std::string>());
    CHECK(covers(document["diagnostics"], one));
  }
  CHECK(count == 125);
}

TEST_CASE("peer cases: the generator's command lines give the peer's rows or are refused as there") {
  const fs::path folder = cases_folder();
  if (folder.empty()) SWEEP_SKIP("the peer's cases are not beside the checkout");
  const Sweepctl sweepctl;
  size_t count = 0;
  for (const json& one : read_json(folder / "index.json")) {
    if (one["kind"] != "generate") continue;
    ++count;
    const std::string file = one["file"];
    std::vector<std::string> arguments = {"plan"};
    const auto argv = one["argv"].get<std::vector<std::string>>();
    if (!argv.empty()) {
      arguments.insert(arguments.end(), {argv.front(), "--config-files", (folder / file).string(), "--runner-config",
                                         (folder / "_runners.yaml").string()});
      arguments.insert(arguments.end(), argv.begin() + 1, argv.end());
    }
    const Ran ran = sweepctl(arguments);
    check_verdict(one, ran.code == 0, ran.output);
    INFO(file << "\n" << ran.output);
    if (one["verdict"] == "reject" && one["code"] == "usage" && !argv.empty()) CHECK(ran.code == 2);
    if (one["verdict"] != "accept" || ran.code != 0) continue;
    CHECK((ran.rows() == read_json(folder / one["out"].get<std::string>())) != kOtherRows.contains(file));
  }
  CHECK(count == 41);
}
