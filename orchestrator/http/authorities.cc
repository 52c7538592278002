#include "orchestrator/http/authorities.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "orchestrator/base/file.h"
#include "orchestrator/diag/rules/http.h"
#include "orchestrator/http/libcurl.h"

namespace sweep::http {

namespace {

namespace fs = std::filesystem;

constexpr uint64_t kLargestBundle = uint64_t{16} << 20;

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

// What libcurl was built to use, where it has that.
struct BuiltIn {
  std::optional<std::string> file;
  std::optional<std::string> folder;
};
BuiltIn built_in() {
  BuiltIn result;
  const curl_version_info_data* version = libcurl().version_info(CURLVERSION_NOW);
  if (version->age < CURLVERSION_SEVENTH) return result;
  if (version->cainfo != nullptr) result.file = version->cainfo;
  if (version->capath != nullptr) result.folder = version->capath;
  return result;
}

// Whether certificates are found in it by the hash of their names: "1a2b3c4d.0".
bool has_hashes(const fs::path& folder) {
  std::error_code failed;
  for (fs::directory_iterator entry(folder, failed), end; !failed && entry != end; entry.increment(failed))
    if (entry->path().extension() == ".0") return true;
  return false;
}

// Looked for once: a load makes thousands of connections.
const std::optional<std::string>& system_folder() {
  static const std::optional<std::string> kFolder = [] {
    std::optional<std::string> folder = built_in().folder;
    return folder && has_hashes(*folder) ? folder : std::nullopt;
  }();
  return kFolder;
}

bool is_system_file(const std::string& file) {
  std::error_code failed;
  const auto built = built_in().file;
  return built && fs::equivalent(file, *built, failed);
}

}  // namespace

diag::Result<Authorities> authorities(const std::filesystem::path& ca_file) {
  Authorities result{.pem = std::nullopt, .file = variable("CURL_CA_BUNDLE"), .folder = std::nullopt};
  if (!result.file) {
    result.file = variable("SSL_CERT_FILE");
    result.folder = variable("SSL_CERT_DIR");
  }
  if (!result.folder && system_folder() && (!result.file || is_system_file(*result.file))) {
    result.file.reset();
    result.folder = system_folder();
    result.only_folder = true;
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
  const std::optional<std::string> others = result.file || result.only_folder ? result.file : built_in().file;
  if (others)
    if (const auto text = base::read_file(*others, kLargestBundle)) *result.pem += "\n" + *text;
  return result;
}

}  // namespace sweep::http
