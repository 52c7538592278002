#include "orchestrator/weights/safetensors.h"

#include <string>

#include <fmt/format.h>

#include "orchestrator/diag/rules/weights.h"
#include "tests/support/catch.h"
#include "tests/support/test_dir.h"
#include "tests/support/tiny_model.h"

namespace sweep::weights {

namespace {

// The messages for a file with this header and so many bytes of tensors; "ok" if there are none.
std::string check(const std::string& header, size_t data_bytes) {
  const test::TestDir dir;
  dir.write("x.safetensors", test::safetensors(header, std::string(data_bytes, 'd')));
  diag::Diagnostics diagnostics;
  read_shard_header(dir / "x.safetensors", "x.safetensors", diagnostics);
  std::string all;
  for (const auto& d : diagnostics.items()) all += d.message + "\n";
  return all.empty() ? "ok" : all;
}

std::string tensor(const std::string& name, const std::string& dtype, const std::string& shape, int begin, int end) {
  return fmt::format(R"("{}":{{"dtype":"{}","shape":{},"data_offsets":[{},{}]}})", name, dtype, shape, begin, end);
}
std::string object(const std::string& members) {
  return "{" + members + "}";
}

}  // namespace

TEST_CASE("safetensors: proper headers of all types pass") {
  CHECK(check("{}", 0) == "ok");
  CHECK(check(R"({"__metadata__":{"format":"pt"}}   )", 0) == "ok");
  CHECK(check(object(tensor("a", "BF16", "[2,3]", 0, 12) + "," + tensor("b", "F4", "[4]", 12, 14)), 14) == "ok");
  CHECK(check(object(tensor("b", "F8_E8M0", "[]", 4, 5) + "," + tensor("a", "I32", "[1]", 0, 4)), 5) == "ok");
  CHECK(check(object(tensor("a", "F32", "[0]", 0, 0) + "," + tensor("b", "U8", "[1]", 0, 1)), 1) == "ok");
  CHECK(check(object(tensor("a", "F6_E2M3", "[4]", 0, 3)), 3) == "ok");
}

TEST_CASE("safetensors: sizes, holes, overlaps and ends that disagree are found") {
  CHECK(contains(check(object(tensor("a", "BF16", "[2,3]", 0, 11)), 11), "takes 11 bytes, expected 12"));
  CHECK(contains(check(object(tensor("a", "F4", "[3]", 0, 2)), 2), "expected 1.5"));
  CHECK(contains(check(object(tensor("a", "U8", "[4]", 1, 5)), 5), "begins at 1, expected 0 (a hole)"));
  CHECK(contains(check(object(tensor("a", "U8", "[4]", 0, 4) + "," + tensor("b", "U8", "[4]", 3, 7)), 7),
                 "(an overlap)"));
  CHECK(contains(check(object(tensor("a", "U8", "[4]", 0, 4)), 5), "end at 4, the file holds 5"));
  CHECK(contains(check(object(tensor("a", "U8", "[4]", 0, 4)), 3), "end at 4, the file holds 3"));
  CHECK(contains(check(object(tensor("a", "U8", "[1]", 5, 4)), 5), "before its begin"));
  CHECK(contains(check(object(tensor("a", "U8", "[4]", 0, 4) + "," + tensor("a", "U8", "[4]", 0, 4)), 4),
                 "listed twice"));
}

TEST_CASE("safetensors: impossible shapes and mistyped fields are found") {
  CHECK(contains(check(object(tensor("a", "U8", "[-1]", 0, 1)), 1), "impossible shape"));
  CHECK(contains(check(object(tensor("a", "U8", "[4294967296,4294967296,2]", 0, 1)), 1), "impossible shape"));
  CHECK(contains(check(object(tensor("a", "F64", "[2305843009213693952]", 0, 1)), 1), "impossible shape"));
  CHECK(contains(check(object(tensor("a", "F64", "[\"x\"]", 0, 1)), 1), "impossible shape"));
  CHECK(contains(check(R"({"a":5})", 0), "lacks a proper dtype"));
  CHECK(contains(check(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0]}})", 1), "lacks a proper dtype"));
  CHECK(contains(check(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,-1]}})", 1), "lacks a proper dtype"));
}

TEST_CASE("safetensors: an unknown type is a warning") {
  diag::Diagnostics diagnostics;
  parse_shard_header(object(tensor("a", "F3_NEW", "[4]", 0, 9)),
                     8 + object(tensor("a", "F3_NEW", "[4]", 0, 9)).size() + 9, "x", diagnostics);
  CHECK(diagnostics.error_count() == 0);
  REQUIRE(diagnostics.warning_count() == 1);
  CHECK(diagnostics.items()[0].rule == diag::rule::weights_unknown_dtype);
}

TEST_CASE("safetensors: pages, pointers, empty and cut files are no shards") {
  const test::TestDir dir;
  for (const std::string& content :
       {std::string(), std::string("1234567"), std::string("<!DOCTYPE html><html></html>"),
        std::string("version https://git-lfs.github.com/spec/v1\noid sha256:abc\nsize 1\n"),
        test::safetensors("not json", ""), test::safetensors("[]", ""), test::safetensors("{}", "").substr(0, 9),
        std::string(8, '\xff')}) {
    CAPTURE(content);
    diag::Diagnostics diagnostics;
    CHECK(!read_shard_header(dir.write("x", content), "x", diagnostics));
    REQUIRE(diagnostics.items().size() == 1);
    CHECK(diagnostics.items()[0].rule == diag::rule::weights_header_malformed);
  }
  diag::Diagnostics diagnostics;
  CHECK(!read_shard_header(dir / "absent", "absent", diagnostics));
  CHECK(diagnostics.items()[0].rule == diag::rule::weights_unreadable);
}

TEST_CASE("index: weight map and total are read, file names that escape are refused") {
  diag::Diagnostics diagnostics;
  const auto index =
      parse_index(R"({"metadata":{"total_size":12},"weight_map":{"a":"s1","b":"../s2"}})", "i", diagnostics);
  REQUIRE(index.has_value());
  CHECK(*index->total_size == 12);
  CHECK(index->weight_map.size() == 1);
  REQUIRE(diagnostics.items().size() == 1);
  CHECK(diagnostics.items()[0].rule == diag::rule::weights_path_escape);
  CHECK(*parse_index(R"({"metadata":{"total_size":12.0},"weight_map":{}})", "i", diagnostics)->total_size == 12);
  CHECK(!parse_index(R"({"weight_map":{}})", "i", diagnostics)->total_size);
  for (const char* bad : {"", "[]", "{}", R"({"weight_map":[]})"}) {
    diag::Diagnostics problems;
    CHECK(!parse_index(bad, "i", problems));
    CHECK(problems.items().at(0).rule == diag::rule::weights_index_malformed);
  }
  diag::Diagnostics problems;
  CHECK(parse_index(R"({"weight_map":{"a":5}})", "i", problems));
  CHECK(problems.items().at(0).rule == diag::rule::weights_index_malformed);
}

}  // namespace sweep::weights
