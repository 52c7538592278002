#include "orchestrator/weights/content_kind.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <vector>

#include "orchestrator/base/file.h"

namespace sweep::weights {

namespace {

using nlohmann::json;

constexpr size_t kHeadBytes = 64 * 1024;
constexpr size_t kMostShown = 80;
constexpr std::string_view kFetchAgain = "delete the file and fetch it again";

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

std::string_view without_lead(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())) != 0) text.remove_prefix(1);
  return text;
}

// The text between two marks, in lower case they are looked for, on one line and cut.
std::string between(std::string_view text, std::string_view open, std::string_view close) {
  const std::string low = lower(text);
  const size_t begin = low.find(open);
  if (begin == std::string::npos) return {};
  const size_t from = begin + open.size();
  const size_t end = low.find(close, from);
  if (end == std::string::npos) return {};
  std::string inner;
  for (const char c : text.substr(from, std::min(end - from, kMostShown))) inner += c >= 0x20 && c < 0x7f ? c : ' ';
  return inner;
}

std::string named(std::string_view what, std::string_view detail) {
  return detail.empty() ? std::string(what) : fmt::format("{} (\"{}\")", what, detail);
}

// {"error": "..."} or {"message": "..."} and little else.
std::optional<std::string> json_error(std::string_view text) {
  const json parsed = json::parse(text, nullptr, false);
  if (!parsed.is_object()) return std::nullopt;
  for (const char* key : {"error", "message", "detail"}) {
    const auto found = parsed.find(key);
    if (found == parsed.end()) continue;
    if (!found->is_string()) return std::string();
    return found->get<std::string>().substr(0, kMostShown);
  }
  return std::nullopt;
}

bool ends_with_any(std::string_view name, std::initializer_list<std::string_view> suffixes) {
  return std::any_of(suffixes.begin(), suffixes.end(), [&](std::string_view s) { return name.ends_with(s); });
}

bool all_zero(std::string_view bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](char c) { return c == '\0'; });
}

class Reader {
 public:
  explicit Reader(const std::filesystem::path& file)
      : fd_(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)) {
    struct stat status {};
    if (!fd_.is_open() || ::fstat(fd_.get(), &status) != 0 || !S_ISREG(status.st_mode)) return;
    readable_ = true;
    size_ = static_cast<uint64_t>(status.st_size);
  }
  bool readable() const { return readable_; }
  uint64_t size() const { return size_; }

  std::string at(uint64_t offset) const {
    std::string bytes(kHeadBytes, '\0');
    ssize_t got = -1;
    do got = ::pread(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    while (got < 0 && errno == EINTR);
    bytes.resize(got < 0 ? 0 : static_cast<size_t>(got));
    return bytes;
  }

 private:
  base::FileDescriptor fd_;
  bool readable_ = false;
  uint64_t size_ = 0;
};

}  // namespace

std::optional<ForeignContent> foreign_content(const std::filesystem::path& file, std::string_view name) {
  const Reader reader(file);
  if (!reader.readable()) return std::nullopt;
  const std::string fetch_again(kFetchAgain);
  if (reader.size() == 0) return ForeignContent{"nothing", "the download failed before its first byte: " + fetch_again};
  const std::string head = reader.at(0);
  if (head.empty()) return std::nullopt;
  if (all_zero(head) && all_zero(reader.at(reader.size() / 2)) &&
      all_zero(reader.at(reader.size() - std::min<uint64_t>(reader.size(), kHeadBytes))))
    return ForeignContent{reader.size() <= kHeadBytes ? "only zero bytes" : "zero bytes at its begin, middle and end",
                          "the space was reserved and never written: " + fetch_again};
  const std::string_view text = without_lead(head);
  const std::string begin = lower(text.substr(0, 32));
  if (begin.starts_with("version https://git-lfs"))
    return ForeignContent{"a git-LFS pointer in place of the file it points to",
                          "run `git lfs pull`, or fetch the file from the hub"};
  if ((begin.starts_with("<!doctype html") || begin.starts_with("<html") || begin.starts_with("<head")) &&
      !ends_with_any(name, {".html", ".htm", ".md"}))
    return ForeignContent{
        named("an HTML page", between(text, "<title>", "</title>")),
        "a server or proxy answered with a page: sign in or mend the way to the hub, then " + fetch_again};
  if ((begin.starts_with("<?xml") || begin.starts_with("<error>")) && !ends_with_any(name, {".xml", ".svg", ".html"}))
    return ForeignContent{named("an XML reply", between(text, "<code>", "</code>")),
                          "a storage server answered with an error: " + fetch_again};
  if (begin.starts_with("{") && reader.size() <= kHeadBytes)
    if (const auto error = json_error(text))
      return ForeignContent{named("a JSON error reply", *error), "the hub answered with an error: " + fetch_again};
  return std::nullopt;
}

}  // namespace sweep::weights
