#include "orchestrator/schema/model_path.h"

#include <algorithm>
#include <cctype>

#include "orchestrator/base/utf8.h"

namespace sweep::schema {

std::optional<std::string> unsafe_reason(std::string_view path) {
  if (path.empty()) return "is empty";
  if (path.front() == '/') return "is absolute";
  if (path.find('\\') != std::string_view::npos) return "holds a back-slash";
  if (path.size() >= 2 && path[1] == ':' && std::isalpha(static_cast<unsigned char>(path[0])) != 0)
    return "begins with a drive letter";
  if (!base::is_utf8(path)) return "is not UTF-8";
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  if (std::any_of(path.begin(), path.end(), is_control)) return "holds a control character";
  while (true) {
    const size_t end = path.find('/');
    const std::string_view part = path.substr(0, end);
    if (part.empty()) return "holds an empty part";
    if (part == "." || part == "..") return "holds \"" + std::string(part) + "\"";
    if (end == std::string_view::npos) return std::nullopt;
    path.remove_prefix(end + 1);
  }
}

}  // namespace sweep::schema
