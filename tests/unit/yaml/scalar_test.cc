#include "orchestrator/yaml/scalar.h"

#include "tests/support/catch.h"

using namespace sweep;

namespace {

yaml::Node scalar(std::string text, bool quoted = false) {
  yaml::Node node;
  node.kind = yaml::Kind::kScalar;
  node.text = std::move(text);
  node.quoted = quoted;
  return node;
}

}  // namespace

TEST_CASE("scalar: integers are digits without a leading zero") {
  CHECK(yaml::decode_integer(scalar("0")).value() == 0);
  CHECK(yaml::decode_integer(scalar("-12")).value() == -12);
  CHECK(yaml::decode_integer(scalar("+7")).value() == 7);
  CHECK(yaml::decode_integer(scalar("2_063_920")).value() == 2'063'920);
  CHECK(yaml::decode_integer(scalar("9223372036854775807")).value() == INT64_MAX);
  for (const char* bad : {"", "-", "08", "010", "0x10", "0o7", "1e3", "1.0", "1_0", "_1", "1__000", "12_34", "yes",
                          " 1", "9223372036854775808", "1:30"}) {
    INFO(bad);
    CHECK_FALSE(yaml::decode_integer(scalar(bad)).has_value());
  }
  CHECK_FALSE(yaml::decode_integer(scalar("8", true)).has_value());
}

TEST_CASE("scalar: a slip in an integer is answered with what to write") {
  const auto help = [](const char* text) { return yaml::decode_integer(scalar(text)).error().help; };
  CHECK(contains(help("08"), "8"));
  CHECK(contains(help("010"), "10 or 8"));
  CHECK(contains(help("0x10"), "16"));
  CHECK(contains(help("1e3"), "1000"));
  CHECK(contains(help("8.0"), "8"));
  CHECK(help("many").empty());
}

TEST_CASE("scalar: numbers are plain decimals") {
  CHECK(yaml::decode_number(scalar("5.7")).value() == Approx(5.7));
  CHECK(yaml::decode_number(scalar("-0.5")).value() == Approx(-0.5));
  CHECK(yaml::decode_number(scalar("3")).value() == Approx(3));
  for (const char* bad : {"", ".5", "5.", "1e3", "nan", ".inf", "inf", "01.5", "1.5.2", "0x1p3"}) {
    INFO(bad);
    CHECK_FALSE(yaml::decode_number(scalar(bad)).has_value());
  }
}

TEST_CASE("scalar: booleans are true and false only") {
  CHECK(yaml::decode_boolean(scalar("true")).value());
  CHECK_FALSE(yaml::decode_boolean(scalar("false")).value());
  for (const char* bad : {"yes", "no", "on", "off", "True", "1", "0", "y", ""}) {
    INFO(bad);
    CHECK_FALSE(yaml::decode_boolean(scalar(bad)).has_value());
  }
  CHECK(yaml::decode_boolean(scalar("off")).error().help == "write false");
}

TEST_CASE("scalar: unquoted text that some reader takes for something else is refused") {
  for (const char* bad :
       {"1.10", "8", "0x10", "1e3", "yes", "Off", "TRUE", "2026-08-21", "8:00:00", "-1", ".5", "1_000", ".inf", "="}) {
    INFO(bad);
    CHECK_FALSE(yaml::decode_text(scalar(bad)).has_value());
    CHECK(yaml::decode_text(scalar(bad, true)).value() == bad);
  }
  for (const char* good :
       {"1.2.1", "fp8", "v1.0", "h200", "04:00:00", "13c59a3", "a: b", "0.5.16-cu130", "-", "1.3.0rc24", "n"}) {
    INFO(good);
    CHECK(yaml::decode_text(scalar(good)).has_value());
  }
}
