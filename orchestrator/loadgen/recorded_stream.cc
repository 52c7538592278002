#include "orchestrator/loadgen/recorded_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "orchestrator/base/json_fields.h"
#include "orchestrator/base/json_nesting.h"
#include "orchestrator/diag/rules/load.h"
#include "orchestrator/http/request.h"
#include "orchestrator/loadgen/request_record.h"

namespace sweep::loadgen {

namespace {

using base::member;
using nlohmann::json;

constexpr double kNsPerMs = 1e6;
constexpr double kLongestMs = 1e9;  // eleven days

std::optional<int> hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return std::nullopt;
}

std::optional<std::string> bytes_of_hex(std::string_view hex) {
  if (hex.size() % 2 != 0) return std::nullopt;
  std::string bytes;
  bytes.reserve(hex.size() / 2);
  for (size_t i = 0; i < hex.size(); i += 2) {
    const auto high = hex_digit(hex[i]);
    const auto low = hex_digit(hex[i + 1]);
    if (!high || !low) return std::nullopt;
    bytes += static_cast<char>(*high * 16 + *low);
  }
  return bytes;
}

class Replay {
 public:
  Replay(const std::string& file, const AskedLengths& asked) : file_(file) { result_.asked = asked; }

  diag::Result<RecordedStream> run(std::string_view text);
  RecordedStream run_raw(std::string_view text);

 private:
  base::Unexpected<diag::Diagnostic> malformed(std::string message) const {
    return diag::fail(diag::make_at(diag::rule::load_malformed_capture, {.file = file_, .line = line_},
                                    std::move(message),
                                    "see `sweepctl explain load/malformed-capture` for the format"));
  }
  diag::Result<base::Done> take_line(std::string_view line);
  diag::Result<base::Done> take_request(const json& request);
  diag::Result<base::Done> take_count(const json& request, const char* name, std::optional<int64_t>& count) const;
  diag::Result<base::Done> take_read(const json& read);
  void begin();
  void finish(int64_t ended_ns);

  const std::string& file_;
  uint32_t line_ = 0;
  RecordedStream result_;
  std::optional<RequestRecord> record_;
  int status_ = http::status::kOk;
  int64_t now_ns_ = 0;
  bool ended_ = false;
};

void Replay::begin() {
  record_.emplace(result_.asked);
  record_->sent(0, 0);
  record_->begin({.status = status_});
}

void Replay::finish(int64_t ended_ns) {
  record_->finish({.head = {.status = status_}, .error = std::nullopt, .ended_ns = ended_ns});
  result_.sample = record_->sample();
  result_.problems = record_->problems();
  result_.token_events = record_->token_events();
}

diag::Result<base::Done> Replay::take_count(const json& request, const char* name,
                                            std::optional<int64_t>& count) const {
  const json* value = member(request, name);
  if (value == nullptr) return base::Done{};
  if (!base::is_count(*value)) return malformed(fmt::format("\"{}\" of the request is no count of tokens", name));
  count = value->get<int64_t>();
  return base::Done{};
}

diag::Result<base::Done> Replay::take_request(const json& request) {
  if (!request.is_object()) return malformed("\"request\" is no object");
  if (const auto taken = take_count(request, "isl", result_.asked.isl); !taken) return taken;
  if (const auto taken = take_count(request, "osl", result_.asked.osl); !taken) return taken;
  if (const json* status = member(request, "http_status")) {
    if (!status->is_number_unsigned() || status->get<uint64_t>() < 100 || status->get<uint64_t>() > 599)
      return malformed("\"http_status\" of the request is no status of HTTP");
    status_ = status->get<int>();
  }
  begin();
  return base::Done{};
}

diag::Result<base::Done> Replay::take_read(const json& read) {
  const json* t_ms = member(read, "t_ms");
  const double ms = t_ms != nullptr && t_ms->is_number() ? t_ms->get<double>() : -1;
  if (!(ms >= 0 && ms <= kLongestMs))
    return malformed("\"t_ms\" is no time in milliseconds since the request was sent");
  const int64_t ns = std::llround(ms * kNsPerMs);
  if (ns < now_ns_)
    return malformed(
        fmt::format("\"t_ms\" runs backwards, from {} to {}", static_cast<double>(now_ns_) / kNsPerMs, ms));
  now_ns_ = ns;
  const json* data = member(read, "data");
  const json* hex = member(read, "hex");
  if (const json* eof = member(read, "eof")) {
    if (*eof != true || data != nullptr || hex != nullptr)
      return malformed("\"eof\" must be true, and alone with t_ms");
    ended_ = true;
    finish(now_ns_);
    return base::Done{};
  }
  if ((data != nullptr) == (hex != nullptr)) return malformed("a read has either \"data\" or \"hex\"");
  const json& content = data != nullptr ? *data : *hex;
  if (!content.is_string()) return malformed(fmt::format("\"{}\" is no text", data != nullptr ? "data" : "hex"));
  ++result_.reads;
  if (data != nullptr) {
    record_->receive(content.get_ref<const std::string&>(), now_ns_);
    return base::Done{};
  }
  const auto bytes = bytes_of_hex(content.get_ref<const std::string&>());
  if (!bytes) return malformed("\"hex\" is not pairs of hexadecimal digits");
  record_->receive(*bytes, now_ns_);
  return base::Done{};
}

diag::Result<base::Done> Replay::take_line(std::string_view line) {
  if (line.find_first_not_of(" \t\r") == std::string_view::npos) return base::Done{};
  if (ended_) return malformed("there is more after the line with \"eof\"");
  if (base::json_nesting(line) > base::kDeepestJson)
    return malformed(fmt::format("the line nests deeper than {} levels", base::kDeepestJson));
  const json value = json::parse(line, nullptr, false);
  if (!value.is_object()) return malformed("the line is no JSON object, or was cut");
  if (record_) return take_read(value);
  const json* request = member(value, "request");
  if (request == nullptr) return malformed("the first line must be {\"request\": {...}}");
  return take_request(*request);
}

diag::Result<RecordedStream> Replay::run(std::string_view text) {
  result_.has_times = true;
  while (!text.empty()) {
    ++line_;
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (const auto taken = take_line(line); !taken) return diag::fail(taken.error());
  }
  if (!ended_) return malformed("the recording ends without its line with \"eof\", so it was cut");
  return std::move(result_);
}

RecordedStream Replay::run_raw(std::string_view text) {
  begin();
  result_.reads = 1;
  record_->receive(text, 0);
  finish(0);
  return std::move(result_);
}

}  // namespace

diag::Result<RecordedStream> replay(std::string_view text, const std::string& file, const AskedLengths& asked) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  Replay replay(file, asked);
  if (begin != std::string_view::npos && text[begin] == '{') return replay.run(text);
  return replay.run_raw(text);
}

}  // namespace sweep::loadgen
