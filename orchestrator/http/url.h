// URLs of web servers: taken apart, put together, compared and shown.
#pragma once

#include <string>
#include <string_view>

#include "orchestrator/diag/diagnostic.h"

namespace sweep::http {

// What a credential belongs to (RFC 6454): in lower case, the port always given.
struct Origin {
  std::string scheme;
  std::string host;  // an IPv6 address in brackets
  std::string port;

  // Whether it is on this machine, so that nobody listens in between.
  bool is_loopback() const;

  friend bool operator==(const Origin&, const Origin&) = default;
};

// Fails (http/bad-url) for everything but http:// and https:// with a host, and for URLs with control characters.
diag::Result<Origin> origin_of(const std::string& url);

// Where a reference leads that came with the reply of `base`, in a Location or Link header (RFC 3986, section 5).
// Fails (http/bad-url) if that is no URL of a web server.
diag::Result<std::string> resolve_reference(const std::string& base, const std::string& reference);

// The path of a URL, percent-encoded as it is there; empty if it is no URL.
std::string path_of(const std::string& url);

// Percent-encoded so that it is one part of a path, or one value of a form, whatever it holds (RFC 3986, section 2.3).
std::string percent_encoded(std::string_view text);

// The URL without user, password, query and fragment, which may hold secrets: what messages show.
std::string display_url(const std::string& url);

}  // namespace sweep::http
