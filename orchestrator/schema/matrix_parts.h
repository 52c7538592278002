// Field tables that matrix entries and the rows made from them share. Private to this module.
#pragma once

#include "orchestrator/schema/config.h"
#include "orchestrator/schema/shape.h"

namespace sweep::schema {

// Far above anything real; they keep products of sizes within 64 bits.
inline constexpr double kMostRanks = 4096;
inline constexpr double kMostConcurrency = 1'000'000;
inline constexpr double kMostTokens = 1e9;

const ObjectShape& router_shape();
const ObjectShape& offload_backend_shape();
const ObjectShape& acceptance_shape();
const ObjectShape& worker_shape();

}  // namespace sweep::schema
