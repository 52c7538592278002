// Whatever happens to one file of a model is found.
#include <fmt/format.h>

#include "orchestrator/base/rng.h"
#include "orchestrator/weights/verify.h"
#include "tests/support/catch.h"
#include "tests/support/test_dir.h"
#include "tests/support/tiny_model.h"

namespace sweep::weights {

namespace {

constexpr int kShards = 12;
constexpr int kMutations = 1000;

// Changes the folder and returns what was done; calls `undo` to restore it.
class Mutator {
 public:
  Mutator(const test::TestDir& dir, const Pin& pin, base::SplitMix64& random) : dir_(dir), pin_(pin), random_(random) {}

  std::string mutate() {
    victim_ = pick();
    original_ = dir_.read(victim_);
    switch (random_.below(6)) {
      case 0: {
        std::string content = original_;
        const size_t at = random_.below(content.size());
        content[at] = static_cast<char>(content[at] ^ static_cast<char>(1 << random_.below(8)));
        dir_.write(victim_, content);
        return fmt::format("flip a bit of byte {} of {}", at, victim_);
      }
      case 1: {
        const size_t size = random_.below(original_.size());
        dir_.write(victim_, original_.substr(0, size));
        return fmt::format("cut {} to {} bytes", victim_, size);
      }
      case 2:
        dir_.write(victim_, original_ + static_cast<char>(random_.below(256)));
        return "append to " + victim_;
      case 3:
        std::filesystem::remove(dir_ / victim_);
        return "remove " + victim_;
      case 4: {
        other_ = pick();
        while (other_ == victim_) other_ = pick();
        other_original_ = dir_.read(other_);
        dir_.write(victim_, other_original_);
        dir_.write(other_, original_);
        return fmt::format("swap {} and {}", victim_, other_);
      }
      default:
        extra_ = fmt::format("extra-{}.safetensors", random_.below(100));
        dir_.write(extra_, original_);
        return "add " + extra_;
    }
  }

  void undo() {
    dir_.write(victim_, original_);
    if (!other_.empty()) dir_.write(other_, other_original_);
    if (!extra_.empty()) std::filesystem::remove(dir_ / extra_);
    other_.clear();
    extra_.clear();
  }

 private:
  std::string pick() { return pin_.files[random_.below(pin_.files.size())].path; }

  const test::TestDir& dir_;
  const Pin& pin_;
  base::SplitMix64& random_;
  std::string victim_, original_, other_, other_original_, extra_;
};

}  // namespace

TEST_CASE("verify: every one of 1000 random mutations of a 12-shard model is found") {
  const test::TestDir dir;
  test::write_tiny_model(dir.path(), {.shards = kShards});
  const auto pin = pin_from_dir(dir.path(), {.model = "tiny", .revision = std::nullopt, .generator = "test"});
  REQUIRE(pin.has_value());
  base::SplitMix64 random(20260);
  Mutator mutator(dir, *pin, random);
  for (int i = 0; i < kMutations; ++i) {
    const std::string what = mutator.mutate();
    CAPTURE(i, what);
    const Report report = verify(dir.path(), *pin, {.threads = 2});
    CHECK(!report.verified);
    CHECK(report.findings.has_errors());
    mutator.undo();
  }
  CHECK(verify(dir.path(), *pin).verified);
}

}  // namespace sweep::weights
