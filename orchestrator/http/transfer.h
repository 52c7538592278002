// One request in the hands of libcurl. Internal to this module.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/http/libcurl.h"
#include "orchestrator/http/receive_time.h"
#include "orchestrator/http/request.h"

namespace sweep::http {

class Transfer {
 public:
  // Called by libcurl with bytes of the body just read.
  using Receive = std::function<void(std::string_view bytes, const Piece& piece)>;

  Transfer(Method method, Request request, Receive receive);
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;
  ~Transfer();

  // Why the request cannot be sent at all.
  const std::optional<diag::Diagnostic>& rejected() const { return rejected_; }

  CURL* handle() const { return easy_; }
  const ReplyHead& head() const { return head_; }

  // The diagnostic of the limit that has passed at `now_ns`, if one has. The connect timeout is libcurl's.
  std::optional<diag::Diagnostic> expired(int64_t now_ns) const;

  // What libcurl's result means; nothing for success.
  std::optional<diag::Diagnostic> failure(CURLcode code) const;

  diag::Diagnostic cancelled() const;

 private:
  static size_t on_header(char* data, size_t size, size_t count, void* self);
  static size_t on_body(char* data, size_t size, size_t count, void* self);
  void configure();
  void configure_url();
  void configure_authorities();
  bool add_headers(const std::vector<Header>& headers);  // false if one was refused
  bool add_header_line(const std::string& line);
  void take_header(std::string_view line);
  size_t coding_bytes(size_t body_bytes) const;
  std::string subject() const;
  std::string detail_of(CURLcode code) const;
  diag::Diagnostic tls_failure(std::string_view detail) const;
  diag::Diagnostic connect_failure(std::string_view detail) const;
  diag::Diagnostic unusable_proxy(std::string_view detail) const;
  const char* proxy_variable() const;  // the one that names a proxy for this request; null without

  Method method_;
  Request request_;
  Receive receive_;
  CURL* easy_ = nullptr;
  curl_slist* header_list_ = nullptr;
  std::array<char, CURL_ERROR_SIZE> error_text_{};
  std::optional<diag::Diagnostic> rejected_;
  bool https_ = false;
  bool loopback_ = false;
  bool chunked_ = false;   // the reply's body
  size_t head_bytes_ = 0;  // read since the last piece of the body
  ReplyHead head_;
  uint64_t received_bytes_ = 0;
  bool too_large_ = false;
  int64_t started_ns_ = 0;
  int64_t last_receive_ns_ = 0;  // 0 until the body begins
};

}  // namespace sweep::http
