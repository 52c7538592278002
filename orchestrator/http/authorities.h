// Who may vouch for a server. Internal to this module.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "orchestrator/diag/diagnostic.h"

namespace sweep::http {

// What libcurl is told; absent means its own default. libcurl the library, unlike the program curl, looks at no
// environment variable: CURL_CA_BUNDLE, SSL_CERT_FILE and SSL_CERT_DIR are read here.
//
// A file is read for every connection, and all its certificates parsed: 30 ms for a system's 140, in the time to each
// first token. Where the system also has them in a folder by hash, which is only looked into for the one that is
// needed, that folder takes the place of the system's file.
struct Authorities {
  std::optional<std::string> pem;     // the certificates themselves
  std::optional<std::string> file;    // of certificates
  std::optional<std::string> folder;  // of certificates, by hash
  bool only_folder = false;           // the file that libcurl was built to use is left out
};

// `ca_file` (may be empty) comes on top of the system's or the environment's. Fails (http/tls) if it cannot be read or
// holds no certificate. Needs libcurl to be loaded.
diag::Result<Authorities> authorities(const std::filesystem::path& ca_file);

}  // namespace sweep::http
