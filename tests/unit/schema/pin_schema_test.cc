#include "orchestrator/schema/checkout.h"
#include "orchestrator/schema/kinds.h"
#include "orchestrator/yaml/parse.h"
#include "tests/support/catch.h"

namespace sweep::schema {

namespace {

const std::string kRevision(40, 'a');
const std::string kSha256(64, 'b');

struct Read {
  Pin pin;
  diag::Diagnostics out;

  std::string messages() const {
    std::string all;
    for (const diag::Diagnostic& d : out.items()) all += d.path + ": " + d.message + "\n";
    return all;
  }
};

Read read(const std::string& text) {
  Read result;
  const DocumentPtr document = yaml::parse_json("p.json", text, result.out);
  REQUIRE(document != nullptr);
  CHECK((find_kind(document->root(), "p.json") == FileKind::kPin));
  result.pin = decode_pin(document, "p.json", result.out);
  return result;
}

std::string lock(const std::string& files) {
  return R"({"repo": "org/name", "revision": ")" + kRevision + R"(", "files": )" + files + "}";
}

std::string pin(const std::string& file) {
  return R"({"schema_version": 1, "model": "m", "revision": ")" + kRevision + R"(", "complete": true, "files": [)" +
         file + "]}";
}

}  // namespace

TEST_CASE("pin schema: the short form is known by its content and read into the same type") {
  const Read result = read(lock(R"({"a/config.json": {"sha256": ")" + kSha256 + R"(", "size": 7}})"));
  CHECK(result.out.empty());
  CHECK(*result.pin.model == "org/name");
  CHECK(*result.pin.revision == kRevision);
  CHECK_FALSE(result.pin.complete);
  REQUIRE(result.pin.files.size() == 1);
  CHECK(*result.pin.files[0].path == "a/config.json");
  CHECK(*result.pin.files[0].sha256 == kSha256);
  CHECK(*result.pin.files[0].size == 7);
}

TEST_CASE("pin schema: a file of the short form needs one well-formed digest and a path inside the folder") {
  CHECK(contains(read(lock(R"({"a": {}})")).messages(), "file \"a\" has no digest"));
  CHECK(contains(read(lock(R"({"a": {"sha256": null}})")).messages(), "file \"a\" has no digest"));
  const Read empty = read(lock(R"({"a": {"sha256": ""}})"));
  CHECK(empty.out.items().size() == 1);
  CHECK(contains(empty.messages(), "files.a.sha256: \"sha256\" is empty"));
  CHECK(contains(read(lock(R"({"../a": {"sha256": ")" + kSha256 + R"("}})")).messages(),
                 "name \"../a\", expected a path"));
  CHECK(contains(read(lock(R"({"a": "x"})")).messages(), "must be a mapping"));
  CHECK(contains(read(lock("[]")).messages(), "\"files\" must be a mapping"));
  CHECK(contains(read(R"({"repo": "org/name", "revision": "main"})").messages(), "lacks the field \"files\""));
}

TEST_CASE("pin schema: a malformed digest is not reported as missing too") {
  const Read result = read(pin(R"({"path": "a", "size": 1, "sha256": "x", "git_blob": null})"));
  CHECK(result.out.items().size() == 1);
  CHECK(contains(read(pin(R"({"path": "a", "size": 1, "sha256": null, "git_blob": null})")).messages(),
                 "has no digest in a complete pin"));
}

}  // namespace sweep::schema
