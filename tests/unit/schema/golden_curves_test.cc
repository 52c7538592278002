#include "orchestrator/schema/golden_curves.h"

#include "orchestrator/schema/kinds.h"
#include "orchestrator/yaml/parse.h"
#include "tests/support/catch.h"

using namespace sweep;

namespace {

std::vector<schema::AcceptanceCurve> curves(const std::string& text) {
  diag::Diagnostics out;
  const schema::DocumentPtr document = yaml::parse("x.yaml", text, out);
  REQUIRE(document);
  auto decoded = schema::decode_acceptance(document, out);
  REQUIRE(out.empty());
  return decoded;
}

schema::MatrixEntry entry(const std::string& model, const std::string& prefix) {
  schema::MatrixEntry e;
  e.model = {model, {}, true};
  e.model_prefix = {prefix, {}, true};
  return e;
}

}  // namespace

TEST_CASE("golden curves: a model is found by its name, its prefix or the peer's name for the prefix") {
  const auto all = curves("deepseek-v4-pro: { thinking_on: { 3: 2.49 } }\nkimik9: { thinking_on: { 3: 2.9 } }\n");
  const schema::GoldenCurves golden(all);
  CHECK(golden.values(entry("deepseek-ai/DeepSeek-V4-Pro", "x"), 3).size() == 1);
  CHECK(golden.values(entry("somewhere/else", "dsv4"), 3).size() == 1);
  CHECK(golden.values(entry("somewhere/else", "kimik9"), 3).size() == 1);
  CHECK(golden.values(entry("somewhere/else", "kimi"), 3).empty());
  CHECK(golden.values(entry("deepseek-ai/DeepSeek-V4-Pro", "x"), 4).empty());
}

TEST_CASE("golden curves: thinking on goes before thinking off") {
  const auto all = curves("m: { thinking_off: { 3: 2.9 }, thinking_on: { 3: 2.5 } }\n");
  const auto values = schema::GoldenCurves(all).values(entry("o/m", "x"), 3);
  REQUIRE(values.size() == 1);
  CHECK(values[0].length == Approx(2.5));
}

TEST_CASE("golden curves: another quantisation has the same lengths, for judging only") {
  const auto all = curves("glm-5.2-fp8: { thinking_on: { 2: 2.5 } }\n");
  const schema::GoldenCurves golden(all);
  const auto nvfp4 = entry("nvidia/GLM-5.2-NVFP4", "glm5.2");
  CHECK(golden.is_golden(nvfp4, 2.5, 2));
  CHECK_FALSE(golden.is_golden(nvfp4, 2.5, 3));
  CHECK(golden.is_golden(nvfp4, 2.5, std::nullopt));
  CHECK_FALSE(golden.is_golden(nvfp4, 2.4, std::nullopt));
  CHECK(golden.values(nvfp4, 2).empty());
}
