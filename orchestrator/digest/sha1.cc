#include "orchestrator/digest/sha1.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>

#include "orchestrator/base/check.h"

namespace sweep::digest {

struct Sha1::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();

  State() { restart(); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { EVP_MD_CTX_free(context); }

  void restart() { SWEEPCTL_CHECK(EVP_DigestInit_ex(context, EVP_sha1(), nullptr) == 1); }
};

Sha1::Sha1() : state_(std::make_unique<State>()) {}
Sha1::~Sha1() = default;
Sha1::Sha1(Sha1&&) noexcept = default;
Sha1& Sha1::operator=(Sha1&&) noexcept = default;

void Sha1::update(const void* data, size_t size) {
  SWEEPCTL_CHECK(EVP_DigestUpdate(state_->context, data, size) == 1);
}

std::string Sha1::finish_hex() {
  std::array<unsigned char, 20> digest{};
  unsigned int length = 0;
  SWEEPCTL_CHECK(EVP_DigestFinal_ex(state_->context, digest.data(), &length) == 1 && length == digest.size());
  state_->restart();
  std::string text;
  for (const unsigned char byte : digest) text += fmt::format("{:02x}", byte);
  return text;
}

std::string git_blob_prefix(uint64_t size_bytes) {
  std::string prefix = fmt::format("blob {}", size_bytes);
  prefix += '\0';
  return prefix;
}

std::string git_blob_id(std::string_view content) {
  Sha1 hash;
  hash.update(git_blob_prefix(content.size()));
  hash.update(content);
  return hash.finish_hex();
}

}  // namespace sweep::digest
