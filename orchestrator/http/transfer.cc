#include "orchestrator/http/transfer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <climits>
#include <utility>

#include "orchestrator/base/check.h"
#include "orchestrator/base/clock.h"
#include "orchestrator/diag/rules/http.h"

namespace sweep::http {

namespace {

constexpr size_t kMostHeaders = 1000;
constexpr long kMostRedirects = 5;
constexpr int64_t kNanosecondsPerMillisecond = 1'000'000;

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

// A parsed URL of libcurl.
class Url {
 public:
  explicit Url(const std::string& text) {
    if (libcurl().url_set(url_, CURLUPART_URL, text.c_str(), 0) == CURLUE_OK) valid_ = true;
  }
  Url(const Url&) = delete;
  Url& operator=(const Url&) = delete;
  ~Url() { libcurl().url_cleanup(url_); }

  bool valid() const { return valid_; }
  std::string part(CURLUPart which) const {
    char* text = nullptr;
    if (libcurl().url_get(url_, which, &text, 0) != CURLUE_OK) return {};
    std::string result(text);
    libcurl().free(text);
    return result;
  }
  void drop(CURLUPart which) { libcurl().url_set(url_, which, nullptr, 0); }

 private:
  CURLU* url_ = libcurl().url();
  bool valid_ = false;
};

bool is_loopback(std::string_view host) {
  return host == "localhost" || host == "[::1]" || host == "::1" || host.starts_with("127.");
}

bool has_control(std::string_view text) {
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

std::string display_url(const std::string& url) {
  if (!load_libcurl()) return "(not a URL)";
  Url parsed(url);
  if (!parsed.valid()) return "(not a URL)";
  for (const CURLUPart secret :
       {CURLUPART_USER, CURLUPART_PASSWORD, CURLUPART_OPTIONS, CURLUPART_QUERY, CURLUPART_FRAGMENT})
    parsed.drop(secret);
  return parsed.part(CURLUPART_URL);
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
  set(easy_, CURLOPT_FOLLOWLOCATION, request_.follow_redirects ? 1L : 0L);
  set(easy_, CURLOPT_MAXREDIRS, kMostRedirects);
#if LIBCURL_VERSION_NUM >= 0x075500
  set(easy_, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
#else
  set(easy_, CURLOPT_REDIR_PROTOCOLS, static_cast<long>(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
  if (!request_.ca_file.empty()) set(easy_, CURLOPT_CAINFO, request_.ca_file.c_str());
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
  for (const Header& header : request_.headers) {
    if (has_control(header.name) || has_control(header.value) || !add_header_line(header.name + ": " + header.value)) {
      rejected_ = diag::make(diag::rule::http_bad_url,
                             fmt::format("{}: header \"{}\" holds a line break", subject(), trim(header.name)));
      return;
    }
  }
  set(easy_, CURLOPT_HTTPHEADER, header_list_);
}

void Transfer::configure_url() {
  const Url url(request_.url);
  const std::string scheme = url.valid() ? url.part(CURLUPART_SCHEME) : std::string();
  if ((scheme != "http" && scheme != "https") || has_control(request_.url)) {
    rejected_ = diag::make(diag::rule::http_bad_url,
                           url.valid() ? fmt::format("\"{}\" is not a URL of a web server", display_url(request_.url))
                                       : std::string("the address is not a URL"),
                           "write it like http://127.0.0.1:8000");
    return;
  }
  set(easy_, CURLOPT_URL, request_.url.c_str());
  // A proxy from the environment cannot reach this machine's loopback interface.
  if (is_loopback(url.part(CURLUPART_HOST))) set(easy_, CURLOPT_PROXY, "");
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
  transfer.take_header({data, size * count});
  return size * count;
}

void Transfer::take_header(std::string_view line) {
  if (line.starts_with("HTTP/")) {  // also after an interim reply or a redirect: only the last head counts
    head_ = ReplyHead{};
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
  transfer.receive_({data, bytes}, now);
  return bytes;
}

std::string Transfer::subject() const {
  return fmt::format("{} {}", method_name(method_), display_url(request_.url));
}

std::optional<diag::Diagnostic> Transfer::expired(int64_t now_ns) const {
  const auto passed = [&](std::chrono::milliseconds limit, int64_t since_ns) {
    return limit.count() > 0 && now_ns - since_ns > limit.count() * kNanosecondsPerMillisecond;
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

std::optional<diag::Diagnostic> Transfer::failure(CURLcode code) const {
  const std::string_view detail = error_text_[0] != '\0' ? error_text_.data() : libcurl().easy_strerror(code);
  const auto problem = [&](diag::RuleId rule, std::string help = {}) {
    return diag::make(rule, fmt::format("{}: {}", subject(), trim(detail)), std::move(help));
  };
  if (too_large_)
    return diag::make(diag::rule::http_too_large,
                      fmt::format("{}: the reply is larger than {} bytes", subject(), request_.max_bytes));
  switch (code) {
    case CURLE_OK:
      return std::nullopt;
    case CURLE_OPERATION_TIMEDOUT:
      return diag::make(diag::rule::http_connect_timeout,
                        fmt::format("{}: no connection within {} ms", subject(), request_.timeouts.connect.count()));
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_CONNECT:
    case CURLE_INTERFACE_FAILED:
      return problem(diag::rule::http_connect_failed, "check that the server runs and that host and port are right");
    case CURLE_PARTIAL_FILE:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_GOT_NOTHING:
      return diag::make(diag::rule::http_cut,
                        fmt::format("{}: the connection ended after {} bytes of an incomplete reply ({})", subject(),
                                    received_bytes_, trim(detail)),
                        "the server closed or reset it: look into its log");
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CIPHER:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
      return problem(diag::rule::http_tls);
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
