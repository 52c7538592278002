// Prompts of exactly so many random token ids, reproducible from a seed.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "orchestrator/sample/sample.h"

namespace sweep::loadgen {

// The ids that prompts are drawn from: begin <= id < end without `excluded` (special tokens inside the range).
struct TokenRange {
  int64_t begin = 0;
  int64_t end = 0;
  std::vector<int64_t> excluded = {};

  // How many ids there are to draw from.
  int64_t size() const;
};

// The seed of one request's prompt. It depends on nothing else, so that more warm-up requests or another concurrency
// leave the measured prompts as they are. Below 2^53: exact in every JSON reader.
uint64_t prompt_seed(uint64_t load_seed, sample::Phase phase, int64_t sequence);

// `length` ids, uniform and independent; `range` must not be empty.
std::vector<int64_t> make_prompt(uint64_t seed, int64_t length, const TokenRange& range);

// `count` of the words, uniform and independent, with spaces between; `words` must not be empty.
std::string make_words(uint64_t seed, int64_t count, std::span<const std::string> words);

}  // namespace sweep::loadgen
