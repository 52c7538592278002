// Certificates made on the spot, and servers that use them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/support/http_server.h"

namespace sweep::test {

// What a server's certificate says.
struct ServerCertificate {
  std::vector<std::string> names = {"DNS:localhost", "IP:127.0.0.1"};  // subjectAltName, as OpenSSL writes it
  long valid_from_s = -3600;                                           // from now
  long valid_until_s = 24 * 3600;
};

// A certificate authority with a key that is nowhere else.
class TestAuthority {
 public:
  TestAuthority();
  TestAuthority(const TestAuthority&) = delete;
  TestAuthority& operator=(const TestAuthority&) = delete;
  ~TestAuthority();

  // Its certificate, for --ca-file.
  const std::string& pem() const { return pem_; }

  // For HttpServer: HTTPS with a certificate of this authority.
  WireMaker wires(const ServerCertificate& certificate = {}) const;

 private:
  struct Keys;
  std::unique_ptr<Keys> keys_;
  std::string pem_;
};

}  // namespace sweep::test
