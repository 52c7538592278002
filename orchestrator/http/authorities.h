// Who may vouch for a server. Internal to this module.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "orchestrator/diag/diagnostic.h"

namespace sweep::http {

// What libcurl is told; absent means its own default. libcurl the library, unlike the program curl, looks at no
// environment variable: CURL_CA_BUNDLE, SSL_CERT_FILE and SSL_CERT_DIR are read here.
struct Authorities {
  std::optional<std::string> pem;     // the certificates themselves
  std::optional<std::string> file;    // of certificates
  std::optional<std::string> folder;  // of certificates, by hash
};

// `ca_file` (may be empty) comes on top of the system's or the environment's. Fails (http/tls) if it cannot be read or
// holds no certificate. Needs libcurl to be loaded.
diag::Result<Authorities> authorities(const std::filesystem::path& ca_file);

}  // namespace sweep::http
