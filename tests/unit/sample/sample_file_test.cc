#include "orchestrator/sample/sample_file.h"

#include <nlohmann/json.hpp>

#include "orchestrator/diag/rules/file.h"
#include "orchestrator/diag/rules/load.h"
#include "tests/support/catch.h"
#include "tests/support/test_dir.h"

namespace sweep::sample {

namespace {

Sample numbered(int64_t sequence) {
  Sample sample{.job = "j", .sequence = sequence};
  sample.problems.push_back({"load/server-error", "bytes \xff that are no UTF-8"});
  return sample;
}

void write_samples(const std::filesystem::path& path, int64_t count) {
  auto writer = SampleWriter::create(path);
  REQUIRE(writer.has_value());
  for (int64_t i = 0; i < count; ++i) REQUIRE(writer->write(numbered(i)).has_value());
  REQUIRE(writer->sync().has_value());
}

}  // namespace

TEST_CASE("sample file: what is written is read back in order") {
  const test::TestDir dir;
  write_samples(dir / "requests.jsonl", 3);
  const auto file = read_samples(dir / "requests.jsonl");
  REQUIRE(file.has_value());
  CHECK(!file->cut);
  REQUIRE(file->samples.size() == 3);
  for (int64_t i = 0; i < 3; ++i) CHECK(file->samples[static_cast<size_t>(i)].sequence == i);
}

TEST_CASE("sample file: each sample is on the disk as a whole line when write returns") {
  const test::TestDir dir;
  auto writer = SampleWriter::create(dir / "r");
  REQUIRE(writer.has_value());
  CHECK(dir.read("r").ends_with("}\n"));
  REQUIRE(writer->write(numbered(0)).has_value());
  CHECK(read_samples(dir / "r")->samples.size() == 1);
}

TEST_CASE("sample file: cut anywhere, the whole records are kept and the cut is reported") {
  const test::TestDir dir;
  write_samples(dir / "full", 2);
  const std::string full = dir.read("full");
  const size_t header = full.find('\n') + 1;
  const size_t first = full.find('\n', header) + 1;
  for (size_t size = header; size <= full.size(); ++size) {
    CAPTURE(size);
    dir.write("cut", full.substr(0, size));
    const auto file = read_samples(dir / "cut");
    REQUIRE(file.has_value());
    CHECK(file->samples.size() == (size == full.size() ? 2u : size >= first ? 1u : 0u));
    const bool at_line_end = size == header || size == first || size == full.size();
    CHECK(file->cut.has_value() == !at_line_end);
    if (file->cut) {
      CHECK(file->cut->rule == diag::rule::load_file_cut);
      CHECK(file->cut->severity == diag::Severity::kWarning);
      CHECK(file->cut->where->line == (size > first ? 3u : 2u));
    }
  }
  for (size_t size = 0; size < header; ++size) {
    dir.write("cut", full.substr(0, size));
    CHECK(!read_samples(dir / "cut").has_value());
  }
}

TEST_CASE("sample file: a bad line in the middle is an error with its line number") {
  const test::TestDir dir;
  write_samples(dir / "r", 2);
  std::string text = dir.read("r");
  text.insert(text.find('\n') + 1, "{\"job\":1}\n");
  dir.write("r", text);
  const auto file = read_samples(dir / "r");
  REQUIRE(!file.has_value());
  CHECK(file.error().rule == diag::rule::file_malformed);
  CHECK(file.error().where->line == 2);
}

TEST_CASE("sample file: another kind, another version and no file are refused") {
  const test::TestDir dir;
  dir.write("kind", "{\"kind\":\"other\",\"schema_version\":1}\n");
  dir.write("version", "{\"kind\":\"sweepctl-requests\",\"schema_version\":2}\n");
  CHECK(contains(read_samples(dir / "kind").error().message, "header"));
  CHECK(contains(read_samples(dir / "version").error().message, "schema_version is 2, expected 1"));
  CHECK(read_samples(dir / "absent").error().rule == diag::rule::file_unreadable);
  CHECK(SampleWriter::create(dir / "no/such/folder/r").error().rule == diag::rule::file_unwritable);
}

TEST_CASE("sample file: lines without a bottom and tokens without number are refused, not computed with") {
  const std::string header = "{\"kind\":\"sweepctl-requests\",\"schema_version\":1}\n";
  const std::string deep(100'000, '[');
  CHECK(contains(parse_samples(header + deep + "\n", "r").error().message, "nests deeper"));
  CHECK(
      contains(parse_samples("{\"kind\":\"sweepctl-requests\",\"schema_version\":" + deep + "\n", "r").error().message,
               "nests deeper"));
  Sample sample;
  sample.chunks.assign(200, Chunk{.ns = 1, .tokens = 1 << 20});
  CHECK(contains(parse_samples(header + to_json(sample).dump() + "\n", "r").error().message, "more than"));
  sample.chunks.resize(10);
  CHECK(parse_samples(header + to_json(sample).dump() + "\n", "r").has_value());
}

TEST_CASE("sample file: a full disk is reported by the write that meets it") {
  auto writer = SampleWriter::create("/dev/full");
  REQUIRE(!writer.has_value());
  CHECK(writer.error().rule == diag::rule::file_unwritable);
}

}  // namespace sweep::sample
