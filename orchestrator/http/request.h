// What is asked of a server, and what came back.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace sweep::http {

struct Header {
  std::string name;
  std::string value;
};

// Zero means no limit. Each limit has its own diagnostic.
struct Timeouts {
  std::chrono::milliseconds connect{10'000};
  std::chrono::milliseconds first_byte{0};  // from the start of the request to the first byte of the body
  std::chrono::milliseconds idle{0};        // between two reads, once the body has begun
  std::chrono::milliseconds total{0};
};

// What every request to a server needs beside its address.
struct Access {
  std::string bearer_token = {};       // of an Authorization header; empty: none is sent. Never shown
  std::filesystem::path ca_file = {};  // authorities to trust beside the system's
};

// The headers that carry the token; none without one.
std::vector<Header> credentials(const Access& access);

enum class Method : uint8_t { kGet, kHead, kPost };

struct Request {
  std::string url;  // http:// or https://
  std::vector<Header> headers = {};
  std::vector<Header> credentials = {};  // headers for the origin of `url` alone, wherever a redirect leads
  std::string body = {};                 // of a POST
  Timeouts timeouts = {};
  uint64_t max_bytes = uint64_t{64} << 20;  // of the reply's body
  std::filesystem::path ca_file = {};       // authorities to trust beside the system's
};

// Those that decide something here.
namespace status {
inline constexpr int kOk = 200;
inline constexpr int kTooManyRequests = 429;
}  // namespace status

struct ReplyHead {
  int status = 0;                    // 0: none arrived
  std::vector<Header> headers = {};  // names in lower case, in order of arrival

  // The last value of a header, empty if absent. `name` in lower case.
  std::string_view header(std::string_view name) const;
};

struct Response {
  ReplyHead head;
  std::string body;
};

}  // namespace sweep::http
