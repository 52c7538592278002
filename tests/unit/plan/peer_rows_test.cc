// The closest peer's generator and ours over its own files: the same rows in the same order. Skipped where the data is
// not at hand.
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "orchestrator/base/file.h"
#include "orchestrator/plan/rows.h"
#include "tests/support/catch.h"
#include "tests/support/test_dir.h"

using namespace sweep;
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

fs::path peer_folder() {
  const fs::path data = test::reference_data();
  return data.empty() ? fs::path() : data / "inferencex";
}

json read_json(const fs::path& path) {
  const auto text = base::read_file(path);
  REQUIRE(text.has_value());
  return json::parse(*text, nullptr, false);
}

using Options = std::map<std::string, std::vector<std::string>>;

// "--name value value --flag" -> name -> values.
Options options_of(const json& argv) {
  Options options;
  std::string name;
  for (size_t i = 1; i < argv.size(); ++i) {
    const auto word = argv[i].get<std::string>();
    if (word.starts_with("--"))
      options[name = word.substr(2)];
    else
      options[name].push_back(word);
  }
  return options;
}

std::optional<int64_t> number(const Options& options, const std::string& name) {
  const auto found = options.find(name);
  if (found == options.end()) return std::nullopt;
  return std::stoll(found->second.at(0));
}

std::vector<std::string> texts(const Options& options, const std::string& name) {
  const auto found = options.find(name);
  return found == options.end() ? std::vector<std::string>{} : found->second;
}

plan::RowFilter filter_of(const Options& options) {
  plan::RowFilter filter;
  if (options.contains("no-evals")) filter.evals = plan::Evals::kNone;
  if (options.contains("evals-only")) filter.evals = plan::Evals::kOnly;
  if (options.contains("all-evals")) filter.evals = plan::Evals::kAll;
  for (const std::string& text : texts(options, "runner-node-filter")) filter.runner_node_filter = text;
  for (const std::string& type : texts(options, "scenario-type"))
    filter.scenario_types.push_back(*schema::parse_choice<schema::ScenarioKind>(type));
  for (const std::string& lens : texts(options, "seq-lens"))
    filter.seq_lens.emplace_back(lens == "1k1k" ? 1024 : 8192, 1024);
  return filter;
}

plan::MatrixRows run(const schema::Checkout& checkout, const std::string& command, const Options& options) {
  if (command == "test-config") {
    plan::TestConfig test{.filter = filter_of(options), .config_keys = texts(options, "config-keys")};
    for (const std::string& value : texts(options, "conc")) test.concurrencies.push_back(std::stoll(value));
    return plan::test_config(checkout, test);
  }
  const bool both = options.contains("single-node") == options.contains("multi-node");
  return plan::full_sweep(checkout, {.filter = filter_of(options),
                                     .model_prefixes = texts(options, "model-prefix"),
                                     .precisions = texts(options, "precision"),
                                     .frameworks = texts(options, "framework"),
                                     .runner_types = texts(options, "runner-type"),
                                     .step_size = number(options, "step-size").value_or(2),
                                     .min_conc = number(options, "min-conc"),
                                     .max_conc = number(options, "max-conc"),
                                     .max_tp = number(options, "max-tp"),
                                     .max_ep = number(options, "max-ep"),
                                     .single_node = both || options.contains("single-node"),
                                     .multi_node = both || options.contains("multi-node")});
}

// The first row that differs, for the message.
std::string first_difference(const json& ours, const json& theirs) {
  for (size_t i = 0; i < ours.size() && i < theirs.size(); ++i)
    if (ours[i] != theirs[i]) return "row " + std::to_string(i) + "\n" + ours[i].dump() + "\n" + theirs[i].dump();
  return std::to_string(ours.size()) + " rows, expected " + std::to_string(theirs.size());
}

}  // namespace

TEST_CASE("rows: the peer's commands over its own files give the peer's rows in its order") {
  const fs::path peer = peer_folder();
  if (peer.empty()) SWEEP_SKIP("the peer's data is not beside the checkout");
  const json index = read_json(peer / "expected" / "index.json");
  REQUIRE(index.is_object());
  size_t compared = 0;
  for (const auto& [file, run_of] : index.items()) {
    if (!run_of.contains("argv")) continue;
    INFO(file);
    const json& argv = run_of["argv"];
    const Options options = options_of(argv);
    schema::FileSelection selection;
    for (const std::string& name : texts(options, "config-files")) selection.matrix_files.push_back(peer / name);
    selection.runner_file = peer / "configs" / "runners.yaml";
    const schema::Checkout checkout = schema::load_matrix_files(peer, selection);
    const plan::MatrixRows rows = run(checkout, argv[0].get<std::string>(), options);
    const json ours = json::parse(rows.json, nullptr, false);
    const json theirs = read_json(peer / "expected" / file);
    INFO(first_difference(ours, theirs));
    CHECK((ours == theirs));
    CHECK(rows.count == theirs.size());
    ++compared;
  }
  CHECK(compared == 14);
}
