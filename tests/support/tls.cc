#include "tests/support/tls.h"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <csignal>

#include "orchestrator/base/check.h"

namespace sweep::test {

namespace {

using Key = std::shared_ptr<EVP_PKEY>;
using Certificate = std::shared_ptr<X509>;

Key make_key() {
  Key key(EVP_EC_gen("P-256"), EVP_PKEY_free);
  SWEEPCTL_CHECK(key != nullptr);
  return key;
}

std::string next_authority_name() {
  static std::atomic<int> number{1};
  return fmt::format("sweepctl test authority {}", number++);
}

void name(X509_NAME* subject, const std::string& common_name) {
  SWEEPCTL_CHECK(X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                                            reinterpret_cast<const unsigned char*>(common_name.c_str()), -1, -1,
                                            0) == 1);
}

struct Contents {
  std::string subject;
  std::string issuer;
  std::string extension_name;  // OpenSSL's short name
  std::string extension;
  long valid_from_s = 0;
  long valid_until_s = 0;
};

Certificate make_certificate(const Contents& contents, const Key& key, const Key& signer) {
  static std::atomic<long> serial{1};
  Certificate certificate(X509_new(), X509_free);
  X509* x = certificate.get();
  X509_set_version(x, 2);  // X.509 v3
  ASN1_INTEGER_set(X509_get_serialNumber(x), serial++);
  X509_gmtime_adj(X509_getm_notBefore(x), contents.valid_from_s);
  X509_gmtime_adj(X509_getm_notAfter(x), contents.valid_until_s);
  name(X509_get_subject_name(x), contents.subject);
  name(X509_get_issuer_name(x), contents.issuer);
  X509_set_pubkey(x, key.get());
  X509V3_CTX context{};
  X509V3_set_ctx(&context, x, x, nullptr, nullptr, 0);
  const int nid = OBJ_sn2nid(contents.extension_name.c_str());
  X509_EXTENSION* extension = X509V3_EXT_nconf_nid(nullptr, &context, nid, contents.extension.c_str());
  SWEEPCTL_CHECK(extension != nullptr && X509_add_ext(x, extension, -1) == 1);
  X509_EXTENSION_free(extension);
  SWEEPCTL_CHECK(X509_sign(x, signer.get(), EVP_sha256()) > 0);
  return certificate;
}

std::string pem_of(const Certificate& certificate) {
  BIO* memory = BIO_new(BIO_s_mem());
  SWEEPCTL_CHECK(PEM_write_bio_X509(memory, certificate.get()) == 1);
  char* data = nullptr;
  const long size = BIO_get_mem_data(memory, &data);
  std::string pem(data, static_cast<size_t>(size));
  BIO_free(memory);
  return pem;
}

class TlsWire final : public Wire {
 public:
  TlsWire(SSL_CTX* context, int socket) : ssl_(SSL_new(context)) { SSL_set_fd(ssl_, socket); }
  TlsWire(const TlsWire&) = delete;
  TlsWire& operator=(const TlsWire&) = delete;
  ~TlsWire() override { SSL_free(ssl_); }

  bool accept() {
    const bool accepted = SSL_accept(ssl_) == 1;
    if (!accepted) ERR_clear_error();
    return accepted;
  }
  ssize_t receive(char* data, size_t size) override {
    return result_of(SSL_read(ssl_, data, static_cast<int>(std::min<size_t>(size, INT_MAX))));
  }
  ssize_t send(const char* data, size_t size) override {
    return result_of(SSL_write(ssl_, data, static_cast<int>(std::min<size_t>(size, INT_MAX))));
  }
  bool has_more() const override { return SSL_pending(ssl_) > 0; }
  void finish() override {
    SSL_shutdown(ssl_);
    ERR_clear_error();
  }

 private:
  static ssize_t result_of(int result) {
    if (result <= 0) ERR_clear_error();
    return result;
  }

  SSL* ssl_;
};

}  // namespace

struct TestAuthority::Keys {
  std::string name;  // each has its own: names are how issuers are looked for
  Key key;
};

TestAuthority::TestAuthority() : keys_(new Keys{next_authority_name(), make_key()}) {
  // OpenSSL writes to sockets without MSG_NOSIGNAL.
  std::signal(SIGPIPE, SIG_IGN);
  pem_ = pem_of(make_certificate({.subject = keys_->name,
                                  .issuer = keys_->name,
                                  .extension_name = "basicConstraints",
                                  .extension = "critical,CA:TRUE",
                                  .valid_from_s = -24 * 3600,
                                  .valid_until_s = 24 * 3600},
                                 keys_->key, keys_->key));
}

TestAuthority::~TestAuthority() = default;

WireMaker TestAuthority::wires(const ServerCertificate& certificate) const {
  const Key key = make_key();
  const Certificate signed_one = make_certificate({.subject = "server",
                                                   .issuer = keys_->name,
                                                   .extension_name = "subjectAltName",
                                                   .extension = fmt::format("{}", fmt::join(certificate.names, ",")),
                                                   .valid_from_s = certificate.valid_from_s,
                                                   .valid_until_s = certificate.valid_until_s},
                                                  key, keys_->key);
  const std::shared_ptr<SSL_CTX> context(SSL_CTX_new(TLS_server_method()), SSL_CTX_free);
  SWEEPCTL_CHECK(SSL_CTX_use_certificate(context.get(), signed_one.get()) == 1);
  SWEEPCTL_CHECK(SSL_CTX_use_PrivateKey(context.get(), key.get()) == 1);
  return [context](int socket) -> std::unique_ptr<Wire> {
    // A client that connects and says nothing must not hold up the end of the server.
    const timeval limit{.tv_sec = 10, .tv_usec = 0};
    ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    auto wire = std::make_unique<TlsWire>(context.get(), socket);
    if (!wire->accept()) return nullptr;
    return wire;
  };
}

}  // namespace sweep::test
