#include "orchestrator/digest/sha1.h"
#include "orchestrator/digest/sha256.h"
#include "tests/support/catch.h"
#include "tests/support/test_dir.h"

namespace sweep::digest {

TEST_CASE("sha256: known answers of FIPS 180-4") {
  CHECK(sha256_hex("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(sha256_hex("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(sha256_hex(std::string(1'000'000, 'a')) == "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("sha256: pieces give the digest of the whole, and the object starts anew") {
  Sha256 hash;
  for (const char c : std::string_view("abc")) hash.update(&c, 1);
  const std::string first = hex(hash.finish());
  CHECK(first == sha256_hex("abc"));
  hash.update("abc");
  CHECK(hex(hash.finish()) == first);
  CHECK(hex(hash.finish()) == sha256_hex(""));
}

TEST_CASE("sha256: files of sizes around the buffer hash like their content") {
  const test::TestDir dir;
  for (const size_t size : {size_t{0}, size_t{1}, size_t{256 * 1024 - 1}, size_t{256 * 1024}, size_t{256 * 1024 + 1}}) {
    CAPTURE(size);
    const std::string content(size, 'z');
    const auto digest = sha256_file(dir.write("f", content));
    REQUIRE(digest.has_value());
    CHECK(*digest == sha256_hex(content));
  }
  CHECK(!sha256_file(dir / "absent").has_value());
  CHECK(!sha256_file(dir.path()).has_value());
}

TEST_CASE("sha1: known answers of FIPS 180-4") {
  Sha1 hash;
  hash.update("abc");
  CHECK(hash.finish_hex() == "a9993e364706816aba3e25717850c26c9cd0d89d");
  CHECK(hash.finish_hex() == "da39a3ee5e6b4b0d3255bfef95601890afd80709");
  hash.update(std::string(1'000'000, 'a'));
  CHECK(hash.finish_hex() == "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
}

TEST_CASE("git blob id: is what git gives") {
  CHECK(git_blob_id("") == "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
  CHECK(git_blob_id("hello\n") == "ce013625030ba8dba906f756967f9e9ca394464a");
}

}  // namespace sweep::digest
