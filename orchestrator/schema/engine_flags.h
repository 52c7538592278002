// What a recipe tells its engine, read from the free mapping of flags under the names each engine uses.
#pragma once

#include <string_view>

#include "orchestrator/schema/config.h"
#include "orchestrator/schema/facts.h"

namespace sweep::schema {

enum class Role : uint8_t { kAggregated, kPrefill, kDecode };

struct EngineFlags {
  Engine engine = Engine::kOther;
  bool configured = false;  // the role has flags at all
  Integer tp, pp, dcp, pcp, ep, dp;
  Boolean dp_attn;
  Boolean expert_parallel;  // vLLM's switch: experts are spread over all ranks
  Text moe_backend;
  Text model, revision;  // what the engine is told to load

  // Speculative decoding.
  Text method;  // "DSPARK", "mtp", "eagle3"
  bool speculates = false;
  Integer draft_tokens;
  Boolean adaptive_verification;
  Text rejection_sampling;                  // of vLLM: "synthetic" forces the acceptance length
  Number forced_length;                     // tokens committed per step, the target's own included
  const yaml::Node* speculation = nullptr;  // as written

  // GPUs of one worker.
  int64_t ranks() const;
  bool is_dspark() const;
};

EngineFlags read_engine_flags(const Recipe& recipe, Role role);

const yaml::Node* engine_config(const Recipe& recipe, Role role);
const std::vector<NamedText>& engine_environment(const Recipe& recipe, Role role);

// An environment variable of a role, or of every process; null if it is not set.
const NamedText* find_environment(const Recipe& recipe, Role role, std::string_view name);

// A flag under one of its spellings; "-" and "_" are alike, and leading dashes do not count.
const yaml::Entry* find_flag(const yaml::Node& flags, std::initializer_list<std::string_view> names);

}  // namespace sweep::schema
