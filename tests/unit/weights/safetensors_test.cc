#include "orchestrator/weights/safetensors.h"

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "orchestrator/base/rng.h"
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

TEST_CASE("safetensors: repeated keys are found at every depth") {
  CHECK(contains(check(R"({"a":{"dtype":"U8","dtype":"I8","shape":[1],"data_offsets":[0,1]}})", 1),
                 "\"dtype\" is listed"));
  CHECK(contains(check(R"({"__metadata__":{"k":"1","k":"2"}})", 0), "\"k\" is listed twice"));
  CHECK(contains(check(R"({"__metadata__":{},"__metadata__":{}})", 0), "\"__metadata__\" is listed twice"));
  CHECK(contains(check(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":[{"k":1,"k":2}]}})", 1),
                 "\"k\" is listed twice"));
  CHECK(check(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":[{"k":1},{"k":2}]}})", 1) == "ok");
}

TEST_CASE("safetensors: metadata is an object from text to text") {
  for (const char* bad : {"5", "[]", "null", R"("text")", R"({"a":5})", R"({"a":{}})", R"({"a":["x"]})", R"(["x"])"}) {
    CAPTURE(bad);
    CHECK(contains(check(fmt::format(R"({{"__metadata__":{}}})", bad), 0), "from text to text"));
  }
  CHECK(check(R"({"__metadata__":{}})", 0) == "ok");
}

TEST_CASE("safetensors: the header begins with its brace and ends with nothing but blanks") {
  CHECK(contains(check(" {}", 0), "not a JSON object"));
  CHECK(contains(check("\xEF\xBB\xBF{}", 0), "not a JSON object"));
  CHECK(contains(check(std::string("{}\0", 3), 0), "zero byte at 2"));
  CHECK(contains(check("{}x", 0), "not JSON at byte 3"));
  CHECK(contains(check("{} {}", 0), "not JSON"));
  CHECK(check("{}        ", 0) == "ok");
}

TEST_CASE("safetensors: entries of other kinds than tensors are found") {
  for (const char* bad :
       {"5", "null", "[1]", "[{}]", R"("x")", "{}", R"({"dtype":5,"shape":[],"data_offsets":[0,0]})",
        R"({"dtype":"U8","shape":5,"data_offsets":[0,0]})", R"({"dtype":"U8","shape":[0],"data_offsets":{"a":0}})",
        R"({"dtype":"U8","shape":[0],"data_offsets":[[0],0]})", R"({"dtype":"U8","shape":[0],"data_offsets":[0,0,0]})",
        R"({"dtype":["U8"],"shape":[0],"data_offsets":[0,0]})"}) {
    CAPTURE(bad);
    CHECK(contains(check(fmt::format(R"({{"a":{}}})", bad), 0), "\"a\" lacks a proper dtype, shape or data_offsets"));
  }
  for (const char* shape : {"[[1]]", "[1.0]", "[null]", "[{}]"}) {
    CAPTURE(shape);
    CHECK(contains(check(object(tensor("a", "U8", shape, 0, 1)), 1), "impossible shape"));
  }
}

TEST_CASE("safetensors: deep nesting, huge numbers and a million problems do no harm") {
  for (const char* open : {"[", R"({"a":)"}) {
    std::string deep = R"({"a":)";
    for (int i = 0; i < 100'000; ++i) deep += open;
    CHECK(contains(check(deep, 0), "not JSON"));
  }
  CHECK(contains(check(object(tensor("a", "U8", "[1e999]", 0, 1)), 1), "not JSON"));
  CHECK(contains(check(object(tensor("a", "U8", "[99999999999999999999999]", 0, 1)), 1), "impossible shape"));
  std::string many;
  for (int i = 0; i < 10'000; ++i) many += fmt::format("{}\"t{}\":5", i == 0 ? "" : ",", i);
  const std::string problems = check(object(many), 0);
  CHECK(contains(problems, "9980 more problems"));
  CHECK(problems.size() < 4000);
  const std::string name(1'000'000, 'n');
  CHECK(check(object(tensor(name, "U8", "[2]", 0, 1) + "," + tensor(name, name, "[2]", 1, 2)), 2).size() < 4000);
  std::string shape = "[1";
  for (int i = 0; i < 100'000; ++i) shape += ",1";
  CHECK(contains(check(object(tensor("a", "U8", shape + "]", 0, 2)), 2), "(U8 of 100001 extents) takes 2 bytes"));
}

TEST_CASE("safetensors: random changes to a header are found or harmless, and never fatal") {
  const std::string header = object(R"("__metadata__":{"format":"pt"},)" + tensor("a.b", "BF16", "[2,3]", 0, 12) + "," +
                                    tensor("c", "F8_E8M0", "[4]", 12, 16) + "," + tensor("d", "U8", "[]", 16, 17));
  constexpr std::string_view kPieces = R"({}[]:,"0123456789-.eE\u0041 nulltruefalse)";
  base::SplitMix64 random(7);
  size_t found = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string changed = header;
    for (uint64_t n = 1 + random.below(3); n-- > 0;) {
      const size_t at = random.below(changed.size());
      switch (random.below(4)) {
        case 0:
          changed[at] = static_cast<char>(random.below(256));
          break;
        case 1:
          changed.erase(at, 1 + random.below(8));
          break;
        case 2:
          changed.insert(at, 1, kPieces[random.below(kPieces.size())]);
          break;
        default:
          changed.insert(at, changed.substr(random.below(changed.size()), random.below(20)));
      }
      if (changed.empty()) changed = "{";
    }
    diag::Diagnostics diagnostics;
    const auto parsed = parse_shard_header(changed, 8 + changed.size() + 17, "x", diagnostics);
    if (!parsed) REQUIRE(diagnostics.has_errors());
    if (!diagnostics.empty()) ++found;
    // Without a finding, the tensors fill the file.
    if (diagnostics.empty()) REQUIRE(parsed->data_bytes == 17);
  }
  CHECK(found > 15'000);
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
  REQUIRE(index->weight_map.size() == 1);
  CHECK(index->weight_map[0].name == "a");
  CHECK(index->files[index->weight_map[0].file] == "s1");
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

TEST_CASE("index: repeated keys are found, in the map and beside it") {
  const auto problems_of = [](std::string_view text) {
    diag::Diagnostics diagnostics;
    parse_index(text, "i", diagnostics);
    std::string all;
    for (const auto& d : diagnostics.items()) all += d.message + "\n";
    return all;
  };
  CHECK(contains(problems_of(R"({"weight_map":{"a":"s1","a":"s2"}})"), "tensor \"a\" is listed twice"));
  CHECK(contains(problems_of(R"({"weight_map":{"a":"s1"},"weight_map":{}})"), "\"weight_map\" is listed twice"));
  CHECK(contains(problems_of(R"({"metadata":{"total_size":1,"total_size":2},"weight_map":{}})"), "\"total_size\""));
  CHECK(
      contains(problems_of(R"({"weight_map":{"a":["s1"],"b":null,"c":{"d":"e"}}})"), "tensor \"a\" has no file name"));
  CHECK(contains(problems_of("{\"weight_map\":{}}" + std::string(1, '\0')), "not JSON at byte 17"));
  CHECK(problems_of(R"({"metadata":{"x":{"total_size":5}},"weight_map":{"b":"s1","a":"s2"},"x":[{"weight_map":5}]})")
            .empty());
}

}  // namespace sweep::weights
