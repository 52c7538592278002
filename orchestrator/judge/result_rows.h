// Flat result rows, as dashboards collect them: how many GPUs a row is of, and its throughput per GPU.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/yaml/document.h"

namespace sweep::judge {

struct RowGpus {
  std::string id;  // "id" of the row, or "[0]"
  // workers x tp x pp x pcp, over prefill and decode; ep and dcp share these ranks. This is the count of InferenceX,
  // utils/process_result.py.
  int64_t topology = 0;
  std::optional<int64_t> powered;   // GPUs that drew power
  std::optional<int64_t> replicas;  // data parallel size where it is not of the attention layers only
  std::optional<int64_t> gpus;      // the denominator; nothing where the statements leave it open
  bool conflict = false;            // the statements differ
  std::optional<double> output_throughput;

  std::optional<double> output_throughput_per_gpu() const;
};

struct ResultRows {
  std::vector<RowGpus> rows;
  bool readable = true;  // every row could be understood
  diag::Diagnostics findings;
};

// Whether the document is a row or a list of rows.
bool holds_result_rows(const yaml::Document& document);

// Counts the GPUs of every row and holds stated figures per GPU against them.
ResultRows check_result_rows(const yaml::Document& document);

// {"gpus":{ID:N},"output_tput_per_gpu":{ID:V},"conflict":[ID]}; null where refused.
nlohmann::json values_json(const ResultRows& rows);

}  // namespace sweep::judge
