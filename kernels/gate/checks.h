// What a candidate library has to pass.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/gate/cases.h"
#include "kernels/gate/compare.h"
#include "kernels/gate/device_placement.h"
#include "kernels/gate/library.h"

namespace flashmla::gate {

struct Failure {
  // "oracle", "mean-error", "guards", "padded", "repeat", "threads" (in place of it on a device: "graph"), "refusal",
  // "status", "device" or "arguments"
  std::string check;
  std::string message;  // with coordinates and both values where there are any
};

// Against the oracle.
struct Errors {
  ErrorSummary output, lse;                    // of the candidate
  ErrorSummary baseline_output, baseline_lse;  // of the padded baseline
  ErrorSummary lse_floor;                      // of the oracle's own LSE, rounded to FP32

  void add(const Errors& other);
  // The candidate's mean error of the LSE in units of the floor's; 0 where there is no floor.
  double lse_ratio() const { return lse_floor.mean() > 0 ? lse.mean() / lse_floor.mean() : 0.0; }
};

struct Cell {
  std::string name;
  std::string shape;
  std::string group;      // Case::group(); empty: no call is judged by its result
  bool ordinary = false;  // Case::ordinary()
  Errors errors;
  Published published;
  int32_t repeats = 0;   // runs compared with the first one, byte by byte
  int32_t replays = 0;   // launches of the captured graph, on a device
  int64_t launches = 0;  // nodes of the captured graph: what one call puts on the stream
  std::vector<Failure> failures;

  bool passed() const { return failures.empty(); }
  void fail(const char* check, std::string message) { failures.push_back({check, std::move(message)}); }
};

// The contexts a gate runs on. All must be ok().
struct Subjects {
  const Context& candidate;
  const Context* candidate_single;  // with one thread; null on a device
  const Context& baseline;          // the padded build
  const Accelerator* accelerator;   // null: the libraries work in this process's memory
  std::string_view arch;
};

struct Effort {
  int32_t oracle_threads = 1;
  int32_t repeats = 0;  // 0: as many as repeats_of() says
};

// How often a case is run again: 100 times on a device, 10 times where the outputs are larger than 256 KiB, once on the
// CPU.
int32_t repeats_of(const Case& one, bool on_device);

Cell check_case(const Case& one, const Subjects& subjects, const Effort& effort);

// Eager against captured: the graph of one call, launched several times, and once more after the contents of all inputs
// (lengths and indices among them) were replaced.
void check_graph(const Case& one, DevicePlacement& placement, const Subjects& subjects, const Execution& eager,
                 int32_t replays, Cell& cell);

// Calls that must be refused, with outputs untouched and a message.
Cell check_arguments(const Subjects& subjects);

}  // namespace flashmla::gate
