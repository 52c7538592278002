// SHA-1, only for the names that git gives to files (a hub lists small files by git blob id).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace sweep::digest {

class Sha1 {
 public:
  Sha1();
  ~Sha1();
  Sha1(Sha1&&) noexcept;
  Sha1& operator=(Sha1&&) noexcept;

  void update(const void* data, size_t size);
  void update(std::string_view text) { update(text.data(), text.size()); }

  // 40 lower-case hex digits of everything so far; the object is then ready for a new message.
  std::string finish_hex();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// What git hashes before the content of a file: "blob ", the decimal size, NUL (git: Documentation/gitformat-loose).
std::string git_blob_prefix(uint64_t size_bytes);

// Git's object id of a file with this content.
std::string git_blob_id(std::string_view content);

}  // namespace sweep::digest
