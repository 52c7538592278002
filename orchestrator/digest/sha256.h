// SHA-256 through OpenSSL (which uses the CPU's SHA instructions). This module is the only user of OpenSSL.
#pragma once

#include <array>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "orchestrator/base/file.h"

namespace sweep::digest {

using Digest256 = std::array<unsigned char, 32>;

// 64 lower-case hex digits.
std::string hex(const Digest256& digest);

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void update(const void* data, size_t size);
  void update(std::string_view text) { update(text.data(), text.size()); }

  // The digest of everything so far; the object is then ready for a new message.
  Digest256 finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Hex digest of a text.
std::string sha256_hex(std::string_view text);

// Hex digest of a file, read in pieces.
base::Expected<std::string, base::IoError> sha256_file(const std::filesystem::path& path);

}  // namespace sweep::digest
