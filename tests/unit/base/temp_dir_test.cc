#include "orchestrator/base/temp_dir.h"

#include <fstream>

#include "tests/support/catch.h"

namespace sweep::base {

TEST_CASE("temp dir: is private and goes away with all its content") {
  std::filesystem::path path;
  {
    const auto dir = TempDir::create();
    REQUIRE(dir.has_value());
    path = dir->path();
    CHECK(std::filesystem::is_directory(path));
    CHECK(std::filesystem::status(path).permissions() == std::filesystem::perms::owner_all);
    std::filesystem::create_directories(path / "a/b");
    std::ofstream(path / "a/b/c") << "x";
  }
  CHECK(!std::filesystem::exists(path));
}

TEST_CASE("temp dir: a moved one is removed once, by its last owner") {
  auto first = TempDir::create();
  auto second = TempDir::create();
  REQUIRE((first && second));
  const auto kept = first->path();
  const auto dropped = second->path();
  *second = std::move(*first);
  CHECK(std::filesystem::exists(kept));
  CHECK(!std::filesystem::exists(dropped));
  CHECK(second->path() == kept);
}

TEST_CASE("temp dir: a parent that is not there is an error") {
  CHECK(!TempDir::create("/no/such/parent").has_value());
}

}  // namespace sweep::base
