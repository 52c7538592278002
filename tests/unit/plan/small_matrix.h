// A small matrix as text, to be edited, and what a changelog entry selects from it.
#pragma once

#include <string>
#include <vector>

#include "orchestrator/schema/checkout.h"
#include "orchestrator/schema/kinds.h"
#include "orchestrator/yaml/parse.h"
#include "tests/support/catch.h"

namespace sweep::test {

inline constexpr const char* kRunners =
    "labels:\n"
    "  h200: [h200_0]\n"
    "  cluster:h200-x: [h200_0]\n"
    "  gb200: [gb_0]\n"
    "hardware:\n"
    "  cluster:h200-x: { available-cpu-dram-mib: 1998848, gpus-per-node: 8 }\n";

inline constexpr const char* kMatrix =
    "single:\n"
    "  image: img:1\n"
    "  model: acme/M\n"
    "  model-prefix: m\n"
    "  precision: fp8\n"
    "  framework: vllm\n"
    "  runner: cluster:h200-x\n"
    "  multinode: false\n"
    "  scenarios:\n"
    "    fixed-seq-len:\n"
    "    - isl: 8192\n"
    "      osl: 1024\n"
    "      search-space:\n"
    "      - { tp: 8, ep: 8, conc-list: [4, 16, 64] }\n"
    "    agentic-coding:\n"
    "    - dram-utilization: 0.8\n"
    "      search-space:\n"
    "      - { tp: 8, kv-offloading: dram, kv-offload-backend: { name: b }, conc-list: [1, 8] }\n"
    "multi:\n"
    "  image: img:2\n"
    "  model: acme/M\n"
    "  model-prefix: m\n"
    "  precision: fp4\n"
    "  framework: dynamo-vllm\n"
    "  runner: gb200\n"
    "  multinode: true\n"
    "  disagg: true\n"
    "  kv-p2p-transfer: nixl\n"
    "  scenarios:\n"
    "    fixed-seq-len:\n"
    "    - isl: 8192\n"
    "      osl: 1024\n"
    "      search-space:\n"
    "      - conc-list: [64, 16]\n"
    "        prefill: { num-worker: 1, tp: 4, ep: 4, dp-attn: true }\n"
    "        decode: { num-worker: 2, tp: 8, ep: 8, dp-attn: true }\n";

// The text with its first `from`, which must occur, replaced.
inline std::string with(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

inline schema::Checkout small_checkout(const std::string& matrix = kMatrix, const std::string& runners = kRunners) {
  schema::TextSelection files;
  files.targets.push_back({"runners.yaml", "runners.yaml", runners, schema::FileKind::kRunners});
  files.targets.push_back({"matrix.yaml", "matrix.yaml", matrix, schema::FileKind::kMatrix});
  return schema::load_texts(std::move(files));
}

// "- config-keys: [...]" lines; description and link are filled in.
inline std::vector<schema::ChangelogEntry> changelog(const std::vector<std::string>& entries) {
  if (entries.empty()) return {};
  std::string text;
  for (const std::string& fields : entries) text += "- {" + fields + ", description: [x], pr-link: XXX}\n";
  diag::Diagnostics found;
  const schema::DocumentPtr document = yaml::parse("log.yaml", text, found);
  REQUIRE(document);
  auto decoded = schema::decode_changelog(document, found);
  REQUIRE_FALSE(found.has_errors());
  return decoded;
}

inline std::vector<std::string> slugs(const diag::Diagnostics& diagnostics, diag::Severity severity) {
  std::vector<std::string> found;
  for (const diag::Diagnostic& d : diagnostics.items())
    if (d.severity == severity) found.emplace_back(diag::rule_info(d.rule).slug);
  return found;
}

}  // namespace sweep::test
