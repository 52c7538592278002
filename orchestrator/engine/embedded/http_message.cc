#include "orchestrator/engine/embedded/http_message.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace sweep::engine::embedded {

namespace {

constexpr std::string_view kLineEnd = "\r\n";
constexpr std::string_view kHeadEnd = "\r\n\r\n";

bool is_token_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

bool is_token(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), is_token_character);
}

bool has_control_character(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](char c) { return (c >= 0 && c < ' ' && c != '\t') || c == 0x7F; });
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

// Whether a comma-separated header holds this word, compared in lower case.
bool lists(const std::string* header, std::string_view word) {
  if (header == nullptr) return false;
  const std::string text = lower(*header);
  std::string_view rest = text;
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    if (trimmed(rest.substr(0, comma)) == word) return true;
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  return false;
}

std::optional<HttpError> parse_header_line(std::string_view line, HttpRequest& request) {
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos) return HttpError{400, "a header line has no colon"};
  const std::string_view name = line.substr(0, colon);
  if (!is_token(name)) return HttpError{400, "a header name is malformed"};
  const std::string_view value = trimmed(line.substr(colon + 1));
  if (has_control_character(value)) return HttpError{400, "a header value holds a control character"};
  request.headers.emplace_back(lower(name), std::string(value));
  return std::nullopt;
}

}  // namespace

const std::string* HttpRequest::header(std::string_view name) const {
  const auto found = std::find_if(headers.begin(), headers.end(), [&](const auto& h) { return h.first == name; });
  return found == headers.end() ? nullptr : &found->second;
}

std::string_view http_reason(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 413:
      return "Content Too Large";
    case 414:
      return "URI Too Long";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "Unknown";
  }
}

std::variant<std::monostate, HttpRequest, HttpError> HttpRequestParser::next() {
  if (!head_) {
    // Empty lines before a request line are allowed.
    size_t blank = 0;
    while (std::string_view(buffer_).substr(blank, 2) == kLineEnd) blank += 2;
    buffer_.erase(0, blank);
    const size_t end = buffer_.find(kHeadEnd);
    if (end == std::string::npos) {
      if (buffer_.size() > limits_.header_bytes) return HttpError{431, "the request's head is too large"};
      // A lone line feed would never lead to the end of the head: better refused than waited for.
      for (size_t at = buffer_.find('\n'); at != std::string::npos; at = buffer_.find('\n', at + 1)) {
        if (at == 0 || buffer_[at - 1] != '\r') return HttpError{400, "a line does not end in CR LF"};
      }
      return std::monostate{};
    }
    if (end + kHeadEnd.size() > limits_.header_bytes) return HttpError{431, "the request's head is too large"};
    if (auto error = parse_head(std::string_view(buffer_).substr(0, end))) return std::move(*error);
    buffer_.erase(0, end + kHeadEnd.size());
  }
  if (buffer_.size() < body_bytes_) return std::monostate{};
  HttpRequest request = std::move(*head_);
  head_.reset();
  wants_continue_ = false;
  request.body = buffer_.substr(0, body_bytes_);
  buffer_.erase(0, body_bytes_);
  return request;
}

bool HttpRequestParser::take_continue() {
  return std::exchange(wants_continue_, false);
}

std::optional<HttpError> HttpRequestParser::parse_head(std::string_view head) {
  HttpRequest request;
  size_t end = head.find(kLineEnd);
  if (auto error = parse_request_line(head.substr(0, end), request)) return error;
  while (end != std::string_view::npos) {
    head.remove_prefix(end + kLineEnd.size());
    end = head.find(kLineEnd);
    if (auto error = parse_header_line(head.substr(0, end), request)) return error;
  }
  if (version_minor_ == 1 && request.header("host") == nullptr) return HttpError{400, "the Host header is missing"};
  request.keep_alive = version_minor_ == 1 ? !lists(request.header("connection"), "close")
                                           : lists(request.header("connection"), "keep-alive");
  if (auto error = parse_body_length(request)) return error;
  wants_continue_ = version_minor_ == 1 && lists(request.header("expect"), "100-continue") && body_bytes_ > 0;
  head_ = std::move(request);
  return std::nullopt;
}

std::optional<HttpError> HttpRequestParser::parse_request_line(std::string_view line, HttpRequest& request) {
  constexpr size_t kMostTarget = size_t{8} * 1024;
  const size_t first = line.find(' ');
  const size_t second = first == std::string_view::npos ? first : line.find(' ', first + 1);
  if (second == std::string_view::npos || line.find(' ', second + 1) != std::string_view::npos) {
    return HttpError{400, "the request line is not METHOD TARGET VERSION"};
  }
  const std::string_view target = line.substr(first + 1, second - first - 1);
  const std::string_view version = line.substr(second + 1);
  request.method = line.substr(0, first);
  if (!is_token(request.method)) return HttpError{400, "the method is malformed"};
  if (version.size() != 8 || version.substr(0, 5) != "HTTP/" || version[6] != '.') {
    return HttpError{400, "the HTTP version is malformed"};
  }
  if (version != "HTTP/1.1" && version != "HTTP/1.0") return HttpError{505, "only HTTP/1.0 and HTTP/1.1 are spoken"};
  version_minor_ = version.back() - '0';
  if (target.size() > kMostTarget) return HttpError{414, "the request target is too long"};
  if (target.empty() || target.front() != '/' || has_control_character(target)) {
    return HttpError{400, "the request target is not a path"};
  }
  request.path = target.substr(0, target.find('?'));
  return std::nullopt;
}

std::optional<HttpError> HttpRequestParser::parse_body_length(const HttpRequest& request) {
  body_bytes_ = 0;
  const std::string* length = nullptr;
  for (const auto& [name, value] : request.headers) {
    if (name != "content-length") continue;
    if (length != nullptr && *length != value) return HttpError{400, "there are two different Content-Length headers"};
    length = &value;
  }
  if (request.header("transfer-encoding") != nullptr) {
    if (length != nullptr) return HttpError{400, "both Content-Length and Transfer-Encoding are given"};
    return HttpError{501, "a request body needs Content-Length; Transfer-Encoding is not supported"};
  }
  if (length == nullptr) return std::nullopt;
  const bool digits =
      !length->empty() && std::all_of(length->begin(), length->end(), [](char c) { return c >= '0' && c <= '9'; });
  if (!digits) return HttpError{400, "Content-Length is not a number"};
  const auto parsed = std::from_chars(length->data(), length->data() + length->size(), body_bytes_);
  if (parsed.ec != std::errc() || body_bytes_ > limits_.body_bytes) {
    return HttpError{413, fmt::format("the body is larger than {} bytes", limits_.body_bytes)};
  }
  return std::nullopt;
}

}  // namespace sweep::engine::embedded
