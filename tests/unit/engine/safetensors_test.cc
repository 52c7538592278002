#include "orchestrator/engine/embedded/safetensors.h"

#include "orchestrator/diag/rules/embedded.h"
#include "tests/support/catch.h"

using namespace sweep;
using namespace sweep::engine::embedded;

namespace {

// A file with this header and `data_bytes` bytes of data.
std::string file_with(const std::string& header, size_t data_bytes) {
  std::string content;
  for (size_t i = 0; i < 8; ++i) content.push_back(static_cast<char>((header.size() >> (8 * i)) & 0xFF));
  return content + header + std::string(data_bytes, 'x');
}

std::string problem_of(const std::string& content) {
  const auto parsed = parse_safetensors(content, "a.safetensors");
  if (parsed.has_value()) return "";
  CHECK(parsed.error().rule == diag::rule::embedded_model_invalid);
  CHECK(parsed.error().where->file == "a.safetensors");
  return parsed.error().message;
}

}  // namespace

TEST_CASE("safetensors: tensors come back with their bytes, and data begins at a multiple of 8") {
  const std::vector<Tensor> tensors = {{{"a", Dtype::kBf16, {3}}, "abcdef"}, {{"b", Dtype::kF32, {1, 2}}, "01234567"}};
  const std::string content = safetensors_bytes(tensors);
  CHECK((content.size() - 14) % 8 == 0);
  const auto parsed = parse_safetensors(content, "a.safetensors");
  REQUIRE(parsed.has_value());
  REQUIRE(parsed->size() == 2);
  CHECK(parsed->at("a").bytes == "abcdef");
  CHECK(parsed->at("a").spec.dtype == Dtype::kBf16);
  CHECK(parsed->at("b").bytes == "01234567");
  CHECK(parsed->at("b").spec.shape == std::vector<int64_t>{1, 2});
}

TEST_CASE("safetensors: damaged files are refused with the reason") {
  CHECK(contains(problem_of(""), "shorter"));
  CHECK(contains(problem_of("1234567"), "shorter"));
  CHECK(contains(problem_of(std::string(8, '\xFF')), "claims"));
  CHECK(contains(problem_of(file_with("{", 0)), "JSON"));
  CHECK(contains(problem_of(file_with("[]", 0)), "JSON"));
  CHECK(contains(problem_of(file_with(R"({"a":1})", 0)), "object"));
  CHECK(contains(problem_of(file_with(R"({"a":{"dtype":"F32","shape":[1]}})", 4)), "lacks"));
  CHECK(contains(problem_of(file_with(R"({"a":{"dtype":"F8","shape":[1],"data_offsets":[0,1]}})", 1)), "dtype"));
  CHECK(contains(problem_of(file_with(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4)), "malformed"));
  CHECK(contains(problem_of(file_with(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4)), "fit"));
  CHECK(contains(problem_of(file_with(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4)), "fit"));
  CHECK(contains(problem_of(file_with(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8)), "hole"));
  CHECK(contains(problem_of(file_with(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 3)), "beyond"));
  CHECK(contains(problem_of(file_with(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 6)), "no tensor"));
  CHECK(contains(problem_of(file_with(
                     R"({"a":{"dtype":"F32","shape":[4294967296,4294967296,4294967296],"data_offsets":[0,4]}})", 4)),
                 "fit"));
  CHECK(contains(problem_of(file_with(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                                      R"("b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
                                      8)),
                 "overlaps"));
}

TEST_CASE("safetensors: any cut of a good file is refused") {
  const std::string content = safetensors_bytes({{{"a", Dtype::kF32, {2}}, "01234567"}});
  for (size_t size = 0; size < content.size(); ++size) {
    INFO(size);
    CHECK(!problem_of(content.substr(0, size)).empty());
  }
}
