#include "orchestrator/weights/pin.h"

#include <nlohmann/json.hpp>

#include "orchestrator/diag/rules/file.h"
#include "orchestrator/diag/rules/weights.h"
#include "orchestrator/digest/sha256.h"
#include "tests/support/catch.h"
#include "tests/support/test_dir.h"
#include "tests/support/tiny_model.h"

namespace sweep::weights {

namespace {

Pin good_pin() {
  return {.model = "org/name",
          .revision = std::string(40, 'a'),
          .complete = true,
          .files = {{"a/b.json", 5, std::nullopt, std::string(40, 'b')}, {"c", 7, std::string(64, 'c'), std::nullopt}},
          .index = IndexTotals{.total_size = 344, .tensor_count = 4},
          .generator = std::nullopt};
}

// The messages of the errors in a pin text.
std::string errors_of(const std::string& text) {
  diag::Diagnostics diagnostics;
  const auto pin = parse_pin(text, "p.json", diagnostics);
  CHECK(pin.has_value() == !diagnostics.has_errors());
  std::string all;
  for (const auto& d : diagnostics.items()) {
    CHECK(d.where->file == "p.json");
    CHECK(d.where->line == 1);
    CHECK(d.where->column >= 1);
    all += std::string(diag::rule_info(d.rule).slug) + " " + d.path + ": " + d.message + "\n";
  }
  return all;
}

std::string with(const std::string& pointer, const nlohmann::json& value) {
  nlohmann::json json = nlohmann::json::parse(to_text(good_pin()));
  json[nlohmann::json::json_pointer(pointer)] = value;
  return json.dump();
}

}  // namespace

TEST_CASE("pin: goes through text unchanged, files by path, the same pin the same bytes") {
  const Pin pin = good_pin();
  diag::Diagnostics diagnostics;
  const auto back = parse_pin(to_text(pin), "p.json", diagnostics);
  CHECK(diagnostics.empty());
  REQUIRE(back.has_value());
  CHECK((*back == pin));
  Pin shuffled = pin;
  std::swap(shuffled.files[0], shuffled.files[1]);
  CHECK(to_text(shuffled) == to_text(pin));
  const auto json = nlohmann::json::parse(to_text(pin));
  CHECK(json.size() == 7);
  CHECK(json["schema_version"] == 1);
  CHECK(json["files"][1]["git_blob"].is_null());
  CHECK(json["generator"].is_null());
}

TEST_CASE("pin: every mistake is reported at its place, by the rules of validate") {
  CHECK(contains(errors_of("{"), "yaml/json-syntax"));
  CHECK(contains(errors_of("[]"), "schema/wrong-type : the file must be a mapping"));
  CHECK(contains(errors_of(with("/schema_version", 2)), "schema/out-of-range schema_version"));
  CHECK(
      contains(errors_of(with("/revision", "main")), "schema/malformed-text revision: \"revision\" is text \"main\""));
  CHECK(contains(errors_of(with("/model", "")), "schema/out-of-range model"));
  CHECK(contains(errors_of(with("/complete", "yes")), "schema/wrong-type complete"));
  CHECK(contains(errors_of(with("/generator", 5)), "schema/wrong-type generator"));
  CHECK(contains(errors_of(with("/extra", 5)), "schema/unknown-field extra"));
  CHECK(contains(errors_of(with("/index", 5)), "schema/wrong-type index"));
  CHECK(contains(errors_of(with("/index/tensor_count", -1)), "schema/out-of-range index.tensor_count"));
  CHECK(contains(errors_of(with("/files", 5)), "schema/wrong-type files"));
  CHECK(contains(errors_of(with("/files/1/sha256", "ABC")), "schema/malformed-text files[1].sha256"));
  CHECK(contains(errors_of(with("/files/0/git_blob", 7)), "schema/wrong-type files[0].git_blob"));
  CHECK(contains(errors_of(with("/files/0/size", 1.5)), "schema/wrong-type files[0].size"));
  CHECK(contains(errors_of(with("/files/0/size", nullptr)), "has no size in a complete pin"));
  CHECK(contains(errors_of(with("/files/0/git_blob", nullptr)), "has no digest in a complete pin"));
  CHECK(contains(errors_of(with("/files/0/path", "c")), "schema/duplicate-name files[1]: file \"c\" is listed twice"));
  for (const char* path : {"../x", "/etc/passwd", "a/../../x", "C:\\x", "C:x", "a\tb"})
    CHECK(contains(errors_of(with("/files/0/path", path)), "schema/malformed-text files[0].path"));
}

TEST_CASE("pin: hostile text is refused before it costs anything") {
  CHECK(contains(errors_of(std::string(200, '[') + std::string(200, ']')), "yaml/too-deep"));
  CHECK(contains(errors_of(R"({"model": "a", "model": "b"})"), "yaml/duplicate-key"));
  CHECK(contains(errors_of("{\"model\": \"\xff\"}"), "yaml/json-syntax"));
  std::string many = "[0";
  for (int i = 0; i < 500000; ++i) many += ",0";
  CHECK(contains(errors_of(many + "]"), "yaml/too-large"));
}

TEST_CASE("pin: the short form is read as a complete pin of what it lists") {
  const std::string text = R"({"repo": "org/name", "revision": ")" + std::string(40, 'a') +
                           R"(", "files": {"c": {"sha256": ")" + std::string(64, 'c') +
                           R"("}, "a/b.json": {"git_blob": ")" + std::string(40, 'b') + R"(", "size": 5}}})";
  diag::Diagnostics diagnostics;
  const auto pin = parse_pin(text, "lock.json", diagnostics);
  CHECK(diagnostics.empty());
  REQUIRE(pin.has_value());
  Pin expected = good_pin();
  expected.index.reset();
  expected.files[1].size.reset();
  CHECK((*pin == expected));
  CHECK(pin_digest(*pin) == pin_digest(expected));
  CHECK(pin_digest(*pin) != pin_digest(good_pin()));
  CHECK(pin_digest(*pin) == digest::sha256_hex(to_text(expected)));
}

TEST_CASE("pin: read from and written to a file") {
  const test::TestDir dir;
  REQUIRE(write_pin(dir / "p.json", good_pin()).has_value());
  diag::Diagnostics diagnostics;
  CHECK((read_pin(dir / "p.json", diagnostics) == good_pin()));
  CHECK(!read_pin(dir / "absent.json", diagnostics));
  CHECK(diagnostics.items().front().rule == diag::rule::file_unreadable);
  dir.write("large.json", std::string((8u << 20) + 1, ' '));
  CHECK(!read_pin(dir / "large.json", diagnostics));
  CHECK(diagnostics.items().back().rule == diag::rule::file_too_large);
  dir.write("p.yaml", "repo: org/name\nrevision: main\nfiles: {}\n");
  CHECK(!read_pin(dir / "p.yaml", diagnostics));
  CHECK(diagnostics.items().back().where->line == 2);
  CHECK(write_pin(dir / "no/p.json", good_pin()).error().rule == diag::rule::file_unwritable);
}

TEST_CASE("content revision: follows from paths and contents alone") {
  const std::vector<PinnedFile> files{{"b", 1, std::string(64, '2'), {}}, {"a", 2, std::string(64, '1'), {}}};
  const std::string lines = "a " + std::string(64, '1') + "\nb " + std::string(64, '2') + "\n";
  CHECK(content_revision(files) == digest::sha256_hex(lines).substr(0, 40));
  CHECK(content_revision({}) == digest::sha256_hex("").substr(0, 40));
}

}  // namespace sweep::weights
