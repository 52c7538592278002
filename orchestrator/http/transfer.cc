#include "orchestrator/http/transfer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <climits>
#include <cstdlib>
#include <utility>

#include "orchestrator/base/check.h"
#include "orchestrator/base/clock.h"
#include "orchestrator/diag/rules/http.h"
#include "orchestrator/http/authorities.h"
#include "orchestrator/http/url.h"

namespace sweep::http {

namespace {

constexpr size_t kMostHeaders = 1000;

std::string_view method_name(Method method) {
  switch (method) {
    case Method::kGet:
      return "GET";
    case Method::kHead:
      return "HEAD";
    case Method::kPost:
      return "POST";
  }
  return "GET";
}

bool breaks_a_line(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](char c) { return c == '\r' || c == '\n' || c == '\0'; });
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())) != 0) text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) text.remove_suffix(1);
  return text;
}

template <class Value>
void set(CURL* easy, CURLoption option, Value value) {
  SWEEPCTL_CHECK(libcurl().easy_setopt(easy, option, value) == CURLE_OK);
}

}  // namespace

std::string_view ReplyHead::header(std::string_view name) const {
  const auto found =
      std::find_if(headers.rbegin(), headers.rend(), [&](const Header& header) { return header.name == name; });
  return found == headers.rend() ? std::string_view() : std::string_view(found->value);
}

Transfer::Transfer(Method method, Request request, Receive receive)
    : method_(method), request_(std::move(request)), receive_(std::move(receive)) {
  easy_ = libcurl().easy_init();
  SWEEPCTL_CHECK(easy_ != nullptr);
  started_ns_ = base::monotonic_ns();
  configure();
}

Transfer::~Transfer() {
  libcurl().easy_cleanup(easy_);
  libcurl().slist_free_all(header_list_);
}

void Transfer::configure() {
  configure_url();
  if (rejected_) return;
  set(easy_, CURLOPT_ERRORBUFFER, error_text_.data());
  set(easy_, CURLOPT_NOSIGNAL, 1L);
  set(easy_, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  set(easy_, CURLOPT_TCP_NODELAY, 1L);
  set(easy_, CURLOPT_FRESH_CONNECT, 1L);
  set(easy_, CURLOPT_FORBID_REUSE, 1L);
  // For libcurl, 0 is its own default of five minutes.
  const int64_t connect_ms = request_.timeouts.connect.count();
  set(easy_, CURLOPT_CONNECTTIMEOUT_MS, connect_ms > 0 ? static_cast<long>(connect_ms) : long{INT_MAX});
  set(easy_, CURLOPT_USERAGENT, "sweepctl/" SWEEPCTL_VERSION);
  set(easy_, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  configure_authorities();
  if (rejected_) return;
  set(easy_, CURLOPT_HEADERFUNCTION, &Transfer::on_header);
  set(easy_, CURLOPT_HEADERDATA, static_cast<void*>(this));
  set(easy_, CURLOPT_WRITEFUNCTION, &Transfer::on_body);
  set(easy_, CURLOPT_WRITEDATA, static_cast<void*>(this));
  if (method_ == Method::kHead) set(easy_, CURLOPT_NOBODY, 1L);
  if (method_ == Method::kPost) {
    set(easy_, CURLOPT_POST, 1L);
    set(easy_, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request_.body.size()));
    set(easy_, CURLOPT_POSTFIELDS, request_.body.c_str());
    // libcurl would otherwise wait up to a second for permission to send a larger body.
    add_header_line("Expect:");
  }
  if (!add_headers(request_.headers) || !add_headers(request_.credentials)) return;
  set(easy_, CURLOPT_HTTPHEADER, header_list_);
}

void Transfer::configure_url() {
  const auto origin = origin_of(request_.url);
  if (!origin) {
    rejected_ = origin.error();
    return;
  }
  https_ = origin->scheme == "https";
  set(easy_, CURLOPT_URL, request_.url.c_str());
  // A proxy from the environment cannot reach this machine's loopback interface.
  loopback_ = origin->is_loopback();
  if (loopback_) set(easy_, CURLOPT_PROXY, "");
}

void Transfer::configure_authorities() {
  if (!https_) return;
  const auto trusted = authorities(request_.ca_file);
  if (!trusted) {
    rejected_ = trusted.error();
    rejected_->message = fmt::format("{}: {}", subject(), rejected_->message);
    return;
  }
  const auto try_set = [&](CURLoption option, const auto* value) {
    return libcurl().easy_setopt(easy_, option, value) == CURLE_OK;
  };
  // Not every TLS library that libcurl can be built with takes folders, or certificates from memory.
  if (trusted->folder) try_set(CURLOPT_CAPATH, trusted->folder->c_str());
  if (trusted->pem) {
    std::string pem = *trusted->pem;
    const curl_blob blob{.data = pem.data(), .len = pem.size(), .flags = CURL_BLOB_COPY};
    if (!try_set(CURLOPT_CAINFO_BLOB, &blob)) set(easy_, CURLOPT_CAINFO, request_.ca_file.c_str());
  } else if (trusted->file) {
    set(easy_, CURLOPT_CAINFO, trusted->file->c_str());
  } else if (trusted->only_folder) {
    set(easy_, CURLOPT_CAINFO, static_cast<const char*>(nullptr));
  }
}

bool Transfer::add_headers(const std::vector<Header>& headers) {
  for (const Header& header : headers) {
    if (!breaks_a_line(header.name) && !breaks_a_line(header.value) &&
        add_header_line(header.name + ": " + header.value))
      continue;
    rejected_ = diag::make(diag::rule::http_bad_url,
                           fmt::format("{}: header \"{}\" holds a line break", subject(), trim(header.name)));
    return false;
  }
  return true;
}

bool Transfer::add_header_line(const std::string& line) {
  curl_slist* extended = libcurl().slist_append(header_list_, line.c_str());
  if (extended == nullptr) return false;
  header_list_ = extended;
  return true;
}

size_t Transfer::on_header(char* data, size_t size, size_t count, void* self) {
  auto& transfer = *static_cast<Transfer*>(self);
  if (transfer.head_.headers.size() >= kMostHeaders) {
    transfer.too_large_ = true;
    return 0;
  }
  transfer.head_bytes_ += size * count;
  transfer.take_header({data, size * count});
  return size * count;
}

void Transfer::take_header(std::string_view line) {
  if (line.starts_with("HTTP/")) {  // also after an interim reply or a redirect: only the last head counts
    head_ = ReplyHead{};
    chunked_ = false;
    const size_t space = line.find(' ');
    if (space != std::string_view::npos)
      for (const char c : line.substr(space + 1, 3))
        if (std::isdigit(static_cast<unsigned char>(c)) != 0) head_.status = head_.status * 10 + (c - '0');
    return;
  }
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos) return;
  std::string name(trim(line.substr(0, colon)));
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  head_.headers.push_back({std::move(name), std::string(trim(line.substr(colon + 1)))});
  if (head_.headers.back().name == "transfer-encoding") chunked_ = true;
}

// "1a2\r\n" and "\r\n" around a chunk (RFC 9112, section 7.1); header, type and tag of a TLS 1.3 record (RFC
// 8446, 5.2).
size_t Transfer::coding_bytes(size_t body_bytes) const {
  constexpr size_t kLineEnds = 4;
  constexpr size_t kRecord = 22;
  size_t bytes = https_ ? kRecord : 0;
  if (!chunked_) return bytes;
  for (size_t left = body_bytes; left != 0; left /= 16) ++bytes;
  return bytes + kLineEnds;
}

size_t Transfer::on_body(char* data, size_t size, size_t count, void* self) {
  const int64_t now = base::monotonic_ns();
  auto& transfer = *static_cast<Transfer*>(self);
  const size_t bytes = size * count;
  transfer.last_receive_ns_ = now;
  transfer.received_bytes_ += bytes;
  if (transfer.received_bytes_ > transfer.request_.max_bytes) {
    transfer.too_large_ = true;
    return 0;
  }
  transfer.receive_({data, bytes}, {.body_bytes = bytes,
                                    .head_bytes = std::exchange(transfer.head_bytes_, 0),
                                    .coding_bytes = transfer.coding_bytes(bytes),
                                    .read_ns = now});
  return bytes;
}

std::string Transfer::subject() const {
  return fmt::format("{} {}", method_name(method_), display_url(request_.url));
}

std::optional<diag::Diagnostic> Transfer::expired(int64_t now_ns) const {
  const auto passed = [&](std::chrono::milliseconds limit, int64_t since_ns) {
    return limit.count() > 0 && now_ns - since_ns > limit.count() * base::kNanosecondsPerMillisecond;
  };
  const Timeouts& limits = request_.timeouts;
  if (passed(limits.total, started_ns_))
    return diag::make(diag::rule::http_total_timeout, fmt::format("{}: not complete after {} ms ({} bytes so far)",
                                                                  subject(), limits.total.count(), received_bytes_));
  if (last_receive_ns_ == 0 && passed(limits.first_byte, started_ns_))
    return diag::make(diag::rule::http_first_byte_timeout,
                      fmt::format("{}: no byte of the reply within {} ms", subject(), limits.first_byte.count()),
                      "look into the server's log; a longer queue or prompt needs a longer timeout");
  if (last_receive_ns_ != 0 && passed(limits.idle, last_receive_ns_))
    return diag::make(
        diag::rule::http_idle_timeout,
        fmt::format("{}: nothing received for {} ms after {} bytes", subject(), limits.idle.count(), received_bytes_),
        "look into the server's log");
  return std::nullopt;
}

// Says which of the usual reasons it is: libcurl's text depends on the TLS library it was built with.
diag::Diagnostic Transfer::tls_failure(std::string_view detail) const {
  // Results of a verification (OpenSSL, x509_vfy.h); others and other libraries get the text alone.
  constexpr long kNotYetValid = 9;
  constexpr long kExpired = 10;
  constexpr std::array<long, 5> kUnknownAuthority{2, 18, 19, 20, 21};
  long verified = 0;
  libcurl().easy_getinfo(easy_, CURLINFO_SSL_VERIFYRESULT, &verified);
  const auto make = [&](std::string_view reason, std::string help) {
    return diag::make(diag::rule::http_tls, fmt::format("{}: {} ({})", subject(), reason, detail), std::move(help));
  };
  if (verified == kExpired)
    return make("the server's certificate has expired", "its operator has to renew it; also check this host's clock");
  if (verified == kNotYetValid) return make("the server's certificate is not valid yet", "check this host's clock");
  if (std::find(kUnknownAuthority.begin(), kUnknownAuthority.end(), verified) != kUnknownAuthority.end())
    return make(
        "the server's certificate is signed by an authority that is not known here",
        "if the authority is your own, name its certificate: --ca-file FILE, or SSL_CERT_FILE in the environment");
  if (detail.find("subject name") != std::string_view::npos)
    return make("the server's certificate is for another host",
                "check the host in the address; something in between may have answered in its place");
  return diag::make(diag::rule::http_tls, fmt::format("{}: {}", subject(), detail));
}

diag::Diagnostic Transfer::connect_failure(std::string_view detail) const {
  std::string help = "check that the server runs and that host and port are right";
  if (const char* proxy = proxy_variable())
    help += fmt::format("; the environment names a proxy ({}), which may be the one that does not answer", proxy);
  return diag::make(diag::rule::http_connect_failed, fmt::format("{}: {}", subject(), detail), std::move(help));
}

diag::Diagnostic Transfer::unusable_proxy(std::string_view detail) const {
  return diag::make(diag::rule::http_proxy, fmt::format("{}: {}", subject(), detail),
                    "a proxy is written like http://HOST:PORT");
}

const char* Transfer::proxy_variable() const {
  if (loopback_) return nullptr;
  // Those that libcurl reads. It ignores HTTP_PROXY because CGI programs get a client's "Proxy:" header under this
  // name.
  const std::array<const char*, 4> of_https{"https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"};
  const std::array<const char*, 3> of_http{"http_proxy", "all_proxy", "ALL_PROXY"};
  const auto first_set = [](const auto& names) -> const char* {
    for (const char* name : names)
      if (const char* value = std::getenv(name); value != nullptr && *value != '\0') return name;
    return nullptr;
  };
  return https_ ? first_set(of_https) : first_set(of_http);
}

// libcurl's text, without the value of the proxy's variable: it repeats one that it does not understand, password and
// all.
std::string Transfer::detail_of(CURLcode code) const {
  std::string detail(trim(error_text_[0] != '\0' ? error_text_.data() : libcurl().easy_strerror(code)));
  const char* variable = proxy_variable();
  if (variable == nullptr) return detail;
  const std::string value = std::getenv(variable);
  const std::string shown = fmt::format("(value of {})", variable);
  for (size_t at = detail.find(value); at != std::string::npos; at = detail.find(value, at + shown.size()))
    detail.replace(at, value.size(), shown);
  return detail;
}

std::optional<diag::Diagnostic> Transfer::failure(CURLcode code) const {
  const std::string detail = detail_of(code);
  const auto problem = [&](diag::RuleId rule) { return diag::make(rule, fmt::format("{}: {}", subject(), detail)); };
  if (too_large_)
    return diag::make(diag::rule::http_too_large,
                      fmt::format("{}: the reply is larger than {} bytes", subject(), request_.max_bytes));
  long tunnel_status = 0;
  libcurl().easy_getinfo(easy_, CURLINFO_HTTP_CONNECTCODE, &tunnel_status);
  if (code != CURLE_OK && tunnel_status >= 300)
    return diag::make(diag::rule::http_proxy,
                      fmt::format("{}: the proxy answered {} instead of opening a tunnel", subject(), tunnel_status),
                      tunnel_status == 407
                          ? "it wants a user and password: http://USER:PASSWORD@HOST:PORT in https_proxy"
                          : "look into the proxy's log; no_proxy names hosts to reach without it");
  switch (code) {
    case CURLE_OK:
      return std::nullopt;
    case CURLE_OPERATION_TIMEDOUT:
      return diag::make(diag::rule::http_connect_timeout,
                        fmt::format("{}: no connection within {} ms", subject(), request_.timeouts.connect.count()));
    case CURLE_COULDNT_RESOLVE_PROXY:
      return unusable_proxy(detail);
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
    case CURLE_INTERFACE_FAILED:
      if (detail.starts_with("Unsupported proxy")) return unusable_proxy(detail);
      return connect_failure(detail);
    case CURLE_PARTIAL_FILE:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_GOT_NOTHING:
      return diag::make(diag::rule::http_cut,
                        fmt::format("{}: the connection ended after {} bytes of an incomplete reply ({})", subject(),
                                    received_bytes_, detail),
                        "the server closed or reset it: look into its log");
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CIPHER:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
      return tls_failure(detail);
    case CURLE_OUT_OF_MEMORY:
      return problem(diag::rule::http_no_resources);
    default:
      return problem(diag::rule::http_protocol);
  }
}

diag::Diagnostic Transfer::cancelled() const {
  return diag::make(diag::rule::http_cancelled,
                    fmt::format("{}: cancelled after {} bytes", subject(), received_bytes_));
}

}  // namespace sweep::http
