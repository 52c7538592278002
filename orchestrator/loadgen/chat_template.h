// How many tokens a server's chat template adds to a prompt. Only the server knows: it is asked, before the load.
#pragma once

#include <cstdint>
#include <stop_token>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/loadgen/load_spec.h"

namespace sweep::loadgen {

// Sends one request of `spec.isl` words and one output token, and takes the words off what its usage counts. The prompt
// is no prefix of any that the load sends. Fails with the request's own problem, or load/template-unknown if the
// server counts fewer tokens than words, or so many that no word would be left.
diag::Result<int64_t> find_template_tokens(const LoadSpec& spec, const std::stop_token& stop = {});

}  // namespace sweep::loadgen
