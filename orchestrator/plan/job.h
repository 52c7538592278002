// A job: one point of the matrix (one entry at one concurrency), with everything that the stages after planning need.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/schema/choices.h"

namespace sweep::plan {

using schema::AcceptanceSource;
std::string_view acceptance_source_name(AcceptanceSource source);
std::optional<AcceptanceSource> parse_acceptance_source(std::string_view text);

struct Acceptance {
  AcceptanceSource source = AcceptanceSource::kGolden;
  // Mean tokens committed per verification step, the target's own token included: 1 <= length <= draft tokens + 1.
  // Set for explicit (as asked) and golden (from the curve).
  std::optional<double> length;
};

using schema::Status;
std::string_view status_name(Status status);
std::optional<Status> parse_status(std::string_view text);

// One setting of the engine that comes from the recipe: a flag of the engine or an environment variable.
struct Setting {
  std::string name;
  std::string value;  // lists and mappings as compact JSON
  // A YAML boolean: on a command line, "true" is the flag alone and "false" leaves it out.
  bool is_switch = false;
};

struct Job {
  std::string id;     // the first 12 hex digits of the SHA-256 of the canonical fields
  std::string entry;  // the entry's key in the matrix file
  diag::SourceSpan where;

  std::string image;          // empty: runs on the host
  bool image_pinned = false;  // by digest
  std::string model;
  std::string model_prefix;
  std::string revision;  // 40 hex digits
  std::string pin;       // path of the model's pin file, relative to the checkout
  std::string precision;
  std::string framework;  // "sglang", "embedded", ...
  std::string runner;     // runner label of the entry: "h200", "b200", "local", ...

  int64_t isl = 0;
  int64_t osl = 0;
  int64_t concurrency = 0;
  int64_t tp = 1;  // of a decode worker, if the point has workers
  int64_t pp = 1;
  int64_t ep = 1;
  bool dp_attn = false;
  bool multinode = false;
  int64_t gpus = 0;  // 0: runs without a GPU

  std::string spec_decoding;  // "none", "mtp", "draft_model", "dspark"
  int64_t num_draft_tokens = 0;
  Acceptance acceptance;
  bool exact_lengths = true;
  int64_t requests = 0;         // of the measured window
  int64_t warmup_requests = 0;  // before it

  Status status = Status::kReady;
  bool research_only = false;
  std::string authorization;
  std::vector<std::string> deviations;

  std::string recipe;                 // path relative to the checkout, with ":variant" if the file has several
  std::vector<Setting> engine_flags;  // from the recipe's engine section, in file order
  std::vector<Setting> environment;   // from the recipe, in file order
};

// The canonical fields are all but `id` and `where`: the same point has the same id wherever its file lies.
std::string job_id(const Job& job);

nlohmann::json to_json(const Job& job);
diag::Result<Job> job_from_json(const nlohmann::json& json);

}  // namespace sweep::plan
