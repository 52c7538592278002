#include "orchestrator/schema/model_path.h"

#include "tests/support/catch.h"

namespace sweep::schema {

TEST_CASE("model path: plain relative names are safe") {
  for (const char* path :
       {"config.json", "a/b/c.safetensors", ".gitattributes", "a..b", "...", "x/..y", "\xC3\xA9.json"})
    CHECK(!unsafe_reason(path));
}

TEST_CASE("model path: names that leave the folder or confuse a system are not") {
  for (const std::string& path :
       {std::string(""), std::string("/etc/passwd"), std::string("../x"), std::string("a/../../x"), std::string("a/.."),
        std::string("./x"), std::string("a//b"), std::string("a/"), std::string("a\\b"), std::string("C:x"),
        std::string("c:/x"), std::string("a\nb"), std::string("a\xff"), std::string("a\0b", 3)}) {
    CAPTURE(path);
    CHECK(unsafe_reason(path).has_value());
  }
}

}  // namespace sweep::schema
