// Broken inputs, one at a time: a clear diagnostic at the right place, the right exit code, nothing started.
#include <fstream>

#include "tests/integration/small_checkout.h"
#include "tests/support/catch.h"

using namespace sweep;
using namespace sweep::test;
namespace fs = std::filesystem;

namespace {

constexpr const char* kMatrix = "matrix/embedded.yaml";

// The run is refused for the inputs, and left no bundle behind.
void check_refused(const SmallCheckout& checkout, const Ran& ran, const std::string& rule, const std::string& place) {
  INFO(ran.output);
  CHECK(ran.code == 1);
  CHECK(contains(ran.output, "[" + rule + "]"));
  CHECK(contains(ran.output, place));
  CHECK_FALSE(checkout.has("requests.partial.jsonl"));
  CHECK_FALSE(checkout.has("result.json"));
}

std::string expected_place(const SmallCheckout& checkout, const std::string& marker) {
  std::ifstream file(checkout.root() / kMatrix);
  std::string line;
  for (int number = 1; std::getline(file, line); ++number)
    if (line.find(marker) != std::string::npos) return std::string(kMatrix) + ":" + std::to_string(number) + ":";
  FAIL("no line has " << marker);
  return {};
}

}  // namespace

TEST_CASE("broken input: a missing shard") {
  const SmallCheckout checkout;
  const fs::path model = checkout.copy_of_model();
  fs::remove(model / "model-00002-of-00003.safetensors");
  check_refused(checkout, checkout.run({"--weights", model.string()}), "weights/missing-file",
                "model-00002-of-00003.safetensors");
}

TEST_CASE("broken input: one flipped byte names the file with both digests") {
  const SmallCheckout checkout;
  const fs::path model = checkout.copy_of_model();
  const fs::path shard = model / "model-00001-of-00003.safetensors";
  std::string bytes = base::read_file(shard).value();
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  REQUIRE(base::write_file_atomic(shard, bytes).has_value());
  const Ran ran = checkout.run({"--weights", model.string()});
  check_refused(checkout, ran, "weights/hash-mismatch", "model-00001-of-00003.safetensors");
  CHECK(contains(ran.output, "cf2b5d9cac9a399e7c73eb446048d35ec972c6ea61a64d1ccd3d95665e3eab14"));
}

TEST_CASE("broken input: another revision than the pin's") {
  const SmallCheckout checkout;
  const std::string text = base::read_file(checkout.root() / kMatrix).value();
  const size_t at = text.find("revision: \"") + std::string("revision: \"").size();
  checkout.edit(kMatrix, text.substr(at, 40), std::string(40, 'd'));
  check_refused(checkout, checkout.run(), "binding/pin-missing", expected_place(checkout, "revision:"));
}

TEST_CASE("broken input: an acceptance length of 9 with seven drafts") {
  const SmallCheckout checkout;
  checkout.edit(kMatrix, "length: 5.7", "length: 9");
  check_refused(checkout, checkout.run(), "acceptance/out-of-range", expected_place(checkout, "length: 9"));
}

TEST_CASE("broken input: an explicit acceptance length without research-only") {
  const SmallCheckout checkout;
  checkout.edit(kMatrix, "  research-only: true\n", "");
  check_refused(checkout, checkout.run(), "acceptance/explicit-needs-research-only",
                expected_place(checkout, "source: explicit"));
}

TEST_CASE("broken input: research-only without an authorisation") {
  const SmallCheckout checkout;
  const std::string text = base::read_file(checkout.root() / kMatrix).value();
  const size_t begin = text.find("  authorization:");
  checkout.edit(kMatrix, text.substr(begin, text.find('\n', begin) + 1 - begin), "");
  check_refused(checkout, checkout.run(), "research/not-authorised", expected_place(checkout, "research-only"));
}

TEST_CASE("broken input: an unknown field names the nearest one") {
  const SmallCheckout checkout;
  checkout.edit(kMatrix, "  precision: fp8", "  precison: fp8");
  const Ran ran = checkout.run();
  check_refused(checkout, ran, "schema/unknown-field", expected_place(checkout, "precison"));
  CHECK(contains(ran.output, "did you mean \"precision\""));
}

TEST_CASE("broken input: a duplicate key names both places") {
  const SmallCheckout checkout;
  checkout.edit(kMatrix, "  precision: fp8\n", "  precision: fp8\n  precision: fp4\n");
  check_refused(checkout, checkout.run(), "yaml/duplicate-key", expected_place(checkout, "precision: fp4"));
}

TEST_CASE("broken input: several mistakes are reported in one run") {
  const SmallCheckout checkout;
  checkout.edit(kMatrix, "length: 5.7", "length: 9");
  checkout.edit(kMatrix, "  precision: fp8", "  precison: fp8");
  const Ran ran = checkout.sweepctl({"validate"});
  INFO(ran.output);
  CHECK(ran.code == 1);
  CHECK(contains(ran.output, "[acceptance/out-of-range]"));
  CHECK(contains(ran.output, "[schema/unknown-field]"));
}

TEST_CASE("broken input: an entry that does not exist gets the nearest name") {
  const SmallCheckout checkout;
  const Ran ran = checkout.sweepctl({"run", "embedded-dspark-8k265"});
  INFO(ran.output);
  CHECK(ran.code == 1);
  CHECK(contains(ran.output, "did you mean \"embedded-dspark-8k256\""));
}

TEST_CASE("broken input: an entry for hardware that is not here is refused before anything is started") {
  const SmallCheckout checkout;
  const fs::path source = SWEEPCTL_SOURCE_DIR;
  fs::copy(source / "matrix", checkout.root() / "matrix",
           fs::copy_options::recursive | fs::copy_options::overwrite_existing);
  fs::copy(source / "recipes", checkout.root() / "recipes",
           fs::copy_options::recursive | fs::copy_options::overwrite_existing);
  const Ran gpus = checkout.sweepctl({"run", "dsv41flash-fp8-h200-sglang-dspark", "--out", checkout.out().string()});
  if (contains(gpus.output, "run/")) SWEEP_SKIP("this host has the GPUs");
  INFO(gpus.output);
  CHECK(gpus.code == 3);
  CHECK(contains(gpus.output, "[engine/host-lacks-gpus]"));
  const Ran planned =
      checkout.sweepctl({"run", "dsv41flash-fp8-h200-sglang-dspark-128k", "--out", checkout.out().string()});
  INFO(planned.output);
  CHECK(planned.code == 1);
  CHECK(contains(planned.output, "[run/not-ready]"));
  const Ran dry = checkout.sweepctl({"run", "dsv41flash-fp8-h200-sglang-dspark", "--dry-run"});
  INFO(dry.output);
  CHECK(dry.code == 0);
  CHECK(contains(dry.output, "SGLANG_SIMULATE_ACC_LEN=5.7"));
  CHECK(contains(dry.output, "--speculative-algorithm DSPARK"));
  CHECK_FALSE(fs::exists(checkout.out()));
}
