#include "orchestrator/http/url.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "orchestrator/diag/rules/http.h"
#include "orchestrator/http/libcurl.h"

namespace sweep::http {

namespace {

// A parsed URL of libcurl.
class Url {
 public:
  explicit Url(const std::string& text)
      : valid_(libcurl().url_set(url_, CURLUPART_URL, text.c_str(), 0) == CURLUE_OK) {}
  Url(const Url&) = delete;
  Url& operator=(const Url&) = delete;
  ~Url() { libcurl().url_cleanup(url_); }

  bool valid() const { return valid_; }
  void drop(CURLUPart which) { libcurl().url_set(url_, which, nullptr, 0); }
  // Takes the place of the URL, which it may be relative to.
  void follow(const std::string& reference) {
    valid_ = valid_ && libcurl().url_set(url_, CURLUPART_URL, reference.c_str(), CURLU_URLENCODE) == CURLUE_OK;
  }
  std::string part(CURLUPart which) const {
    char* text = nullptr;
    if (libcurl().url_get(url_, which, &text, CURLU_DEFAULT_PORT) != CURLUE_OK) return {};
    std::string result(text);
    libcurl().free(text);
    return result;
  }
  std::string text() const {
    char* text = nullptr;
    if (libcurl().url_get(url_, CURLUPART_URL, &text, 0) != CURLUE_OK) return {};
    std::string result(text);
    libcurl().free(text);
    return result;
  }

 private:
  CURLU* url_ = libcurl().url();
  bool valid_ = false;
};

bool has_control(std::string_view text) {
  return std::any_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

}  // namespace

bool Origin::is_loopback() const {
  if (host == "localhost" || host == "[::1]") return true;
  // The address itself: "127.0.0.1.example.com" is somebody's name.
  in_addr address{};
  return ::inet_pton(AF_INET, host.c_str(), &address) == 1 && (ntohl(address.s_addr) >> 24) == 127;
}

diag::Result<Origin> origin_of(const std::string& url) {
  if (const auto loaded = load_libcurl(); !loaded) return diag::fail(loaded.error());
  const Url parsed(url);
  const std::string scheme = parsed.valid() ? parsed.part(CURLUPART_SCHEME) : std::string();
  const std::string host = parsed.valid() ? parsed.part(CURLUPART_HOST) : std::string();
  if ((scheme != "http" && scheme != "https") || host.empty() || has_control(url))
    return diag::fail(diag::rule::http_bad_url,
                      parsed.valid() ? fmt::format("\"{}\" is not a URL of a web server", display_url(url))
                                     : std::string("the address is not a URL"),
                      "write it like http://127.0.0.1:8000");
  return Origin{.scheme = scheme, .host = lower(host), .port = parsed.part(CURLUPART_PORT)};
}

diag::Result<std::string> resolve_reference(const std::string& base, const std::string& reference) {
  if (const auto loaded = load_libcurl(); !loaded) return diag::fail(loaded.error());
  const auto no_url = [&] {
    return diag::fail(diag::rule::http_bad_url,
                      fmt::format("{} refers to something that is not a URL of a web server", display_url(base)));
  };
  if (reference.empty() || has_control(reference)) return no_url();
  Url parsed(base);
  parsed.follow(reference);
  if (!parsed.valid()) return no_url();
  std::string resolved = parsed.text();
  if (!origin_of(resolved)) return no_url();
  return resolved;
}

std::string path_of(const std::string& url) {
  if (!load_libcurl()) return {};
  const Url parsed(url);
  return parsed.valid() ? parsed.part(CURLUPART_PATH) : std::string();
}

std::string percent_encoded(std::string_view text) {
  std::string encoded;
  for (const char c : text) {
    const bool unreserved = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                            c == '.' || c == '_' || c == '~';
    if (unreserved)
      encoded += c;
    else
      encoded += fmt::format("%{:02X}", static_cast<unsigned>(static_cast<unsigned char>(c)));
  }
  return encoded;
}

std::string display_url(const std::string& url) {
  if (!load_libcurl()) return "(not a URL)";
  Url parsed(url);
  if (!parsed.valid()) return "(not a URL)";
  for (const CURLUPart secret :
       {CURLUPART_USER, CURLUPART_PASSWORD, CURLUPART_OPTIONS, CURLUPART_QUERY, CURLUPART_FRAGMENT})
    parsed.drop(secret);
  return parsed.text();
}

}  // namespace sweep::http
