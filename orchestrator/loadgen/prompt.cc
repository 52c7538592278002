#include "orchestrator/loadgen/prompt.h"

#include <algorithm>

#include "orchestrator/base/rng.h"

namespace sweep::loadgen {

namespace {

// The excluded ids that lie in the range, ascending, each once.
std::vector<int64_t> holes_of(const TokenRange& range) {
  std::vector<int64_t> holes;
  for (const int64_t id : range.excluded)
    if (id >= range.begin && id < range.end) holes.push_back(id);
  std::sort(holes.begin(), holes.end());
  holes.erase(std::unique(holes.begin(), holes.end()), holes.end());
  return holes;
}

}  // namespace

int64_t TokenRange::size() const {
  return std::max<int64_t>(0, end - begin - static_cast<int64_t>(holes_of(*this).size()));
}

uint64_t prompt_seed(uint64_t load_seed, sample::Phase phase, int64_t sequence) {
  constexpr int kBitsAboveJsonIntegers = 11;
  base::SplitMix64 bases(load_seed);
  const uint64_t measured = bases.next();
  const uint64_t warm_up = bases.next();
  const uint64_t start = phase == sample::Phase::kMeasured ? measured : warm_up;
  return base::SplitMix64(start + static_cast<uint64_t>(sequence)).next() >> kBitsAboveJsonIntegers;
}

std::vector<int64_t> make_prompt(uint64_t seed, int64_t length, const TokenRange& range) {
  const std::vector<int64_t> holes = holes_of(range);
  const auto choices = static_cast<uint64_t>(range.size());
  base::SplitMix64 random(seed);
  std::vector<int64_t> ids;
  ids.reserve(static_cast<size_t>(length));
  for (int64_t i = 0; i < length; ++i) {
    int64_t id = range.begin + static_cast<int64_t>(random.below(choices));
    for (const int64_t hole : holes) {  // step over each hole at or below the id
      if (hole > id) break;
      ++id;
    }
    ids.push_back(id);
  }
  return ids;
}

std::string make_words(uint64_t seed, int64_t count, std::span<const std::string> words) {
  base::SplitMix64 random(seed);
  std::string text;
  for (int64_t i = 0; i < count; ++i) {
    if (i > 0) text += ' ';
    text += words[static_cast<size_t>(random.below(words.size()))];
  }
  return text;
}

}  // namespace sweep::loadgen
