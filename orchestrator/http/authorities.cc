#include "orchestrator/http/authorities.h"

#include <fmt/format.h>

#include <cstdlib>

#include "orchestrator/base/file.h"
#include "orchestrator/diag/rules/http.h"
#include "orchestrator/http/libcurl.h"

namespace sweep::http {

namespace {

constexpr uint64_t kLargestBundle = uint64_t{16} << 20;

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

// The file of certificates that libcurl was built to use, if it has one.
std::optional<std::string> default_file() {
  const curl_version_info_data* version = libcurl().version_info(CURLVERSION_NOW);
  if (version->age < CURLVERSION_SEVENTH || version->cainfo == nullptr) return std::nullopt;
  return version->cainfo;
}

}  // namespace

diag::Result<Authorities> authorities(const std::filesystem::path& ca_file) {
  Authorities result{.pem = std::nullopt, .file = variable("CURL_CA_BUNDLE"), .folder = std::nullopt};
  if (!result.file) {
    result.file = variable("SSL_CERT_FILE");
    result.folder = variable("SSL_CERT_DIR");
  }
  if (ca_file.empty()) return result;
  const auto added = base::read_file(ca_file, kLargestBundle);
  if (!added)
    return diag::fail(diag::rule::http_tls, fmt::format("the authority's certificate: {}", added.error().text()));
  if (added->find("-----BEGIN CERTIFICATE-----") == std::string::npos &&
      added->find("-----BEGIN TRUSTED CERTIFICATE-----") == std::string::npos)
    return diag::fail(diag::rule::http_tls, fmt::format("\"{}\" holds no certificate in PEM form", ca_file.string()),
                      "a PEM file has lines \"-----BEGIN CERTIFICATE-----\"");
  result.pem = *added;
  // libcurl takes one file: what it would have read comes along.
  const std::optional<std::string> others = result.file ? result.file : default_file();
  if (others)
    if (const auto text = base::read_file(*others, kLargestBundle)) *result.pem += "\n" + *text;
  return result;
}

}  // namespace sweep::http
