// What load to put on which server.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/http/request.h"
#include "orchestrator/loadgen/prompt.h"

namespace sweep::loadgen {

struct LoadSpec {
  std::string job;           // recorded in every sample
  std::string base_url;      // "http://127.0.0.1:8000"; /v1/completions is appended
  std::string model;         // as /v1/models lists it
  std::string api_key = {};  // sent as a bearer token if not empty; never shown

  int64_t isl = 0;              // prompt tokens of every request
  int64_t osl = 0;              // output tokens of every request
  int64_t concurrency = 1;      // requests in flight
  int64_t requests = 0;         // measured ones
  int64_t warmup_requests = 0;  // completed before the first measured one is sent

  TokenRange prompt_tokens;
  uint64_t seed = 0;
  double temperature = 0;

  http::Timeouts timeouts = {.connect = std::chrono::seconds(10),
                             .first_byte = std::chrono::minutes(10),
                             .idle = std::chrono::minutes(2),
                             .total = std::chrono::minutes(60)};
  std::filesystem::path ca_file = {};

  // So many requests in a row without a complete reply end the load; 0: never.
  int64_t give_up_after = 3;
};

// Every reason why the load cannot be generated.
diag::Diagnostics check(const LoadSpec& spec);

// The JSON body of one request.
std::string completion_body(const LoadSpec& spec, uint64_t prompt_seed);

}  // namespace sweep::loadgen
