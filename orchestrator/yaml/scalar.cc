#include "orchestrator/yaml/scalar.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>

namespace sweep::yaml {

namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return result;
}

bool is_one_of(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

bool is_true_word(std::string_view text) {
  return is_one_of(lower(text), {"true", "yes", "on"});
}
bool is_false_word(std::string_view text) {
  return is_one_of(lower(text), {"false", "no", "off"});
}

std::string_view without_sign(std::string_view text) {
  if (text.starts_with('+') || text.starts_with('-')) text.remove_prefix(1);
  return text;
}

bool all_digits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), is_digit);
}

// Digits in groups of three: 1_234_567.
bool is_grouped(std::string_view digits) {
  size_t first = digits.find('_');
  if (first == 0 || first == std::string_view::npos || first > 3) return false;
  std::string_view rest = digits.substr(first);
  while (!rest.empty()) {
    if (rest.size() < 4 || rest[0] != '_' || !all_digits(rest.substr(1, 3))) return false;
    rest.remove_prefix(4);
  }
  return all_digits(digits.substr(0, first));
}

bool is_strict_integer(std::string_view text) {
  const std::string_view digits = without_sign(text);
  if (digits == "0") return true;
  if (digits.empty() || digits[0] == '0') return false;
  return all_digits(digits) || is_grouped(digits);
}

bool is_plain_decimal(std::string_view text) {
  const std::string_view body = without_sign(text);
  const size_t point = body.find('.');
  if (point == std::string_view::npos) return is_strict_integer(text);
  const std::string_view whole = body.substr(0, point);
  return (whole == "0" || (all_digits(whole) && whole[0] != '0')) && all_digits(body.substr(point + 1));
}

// Anything that the C library would read to its end as a number, in the usual spellings of YAML 1.1 and 1.2.
bool looks_like_number(std::string_view text) {
  const std::string_view body = without_sign(text);
  if (body.empty() || body.size() > 64) return false;
  if (is_one_of(lower(body), {".inf", ".nan"})) return true;
  if (body.starts_with("0x") || body.starts_with("0o") || body.starts_with("0b"))
    return body.size() > 2 && std::all_of(body.begin() + 2, body.end(), [](char c) {
             return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F') || c == '_';
           });
  if (!is_digit(body[0]) && body[0] != '.') return false;
  std::string clean(body);
  clean.erase(std::remove(clean.begin(), clean.end(), '_'), clean.end());
  if (!std::any_of(clean.begin(), clean.end(), is_digit)) return false;
  if (!std::all_of(clean.begin(), clean.end(),
                   [](char c) { return is_digit(c) || c == '.' || c == 'e' || c == 'E' || c == '+' || c == '-'; }))
    return false;
  char* end = nullptr;
  std::strtod(clean.c_str(), &end);
  return end == clean.c_str() + clean.size();
}

// 190:20:30 is a number in base 60 to YAML 1.1; 04:00:00 is not, for its leading zero.
bool looks_like_base60(std::string_view text) {
  std::string_view body = without_sign(text);
  if (body.starts_with('0')) return false;
  bool colon = false;
  size_t part = 0;
  for (const char c : body) {
    if (c == ':') {
      if (part == 0) return false;
      colon = true;
      part = 0;
    } else if (is_digit(c)) {
      ++part;
    } else {
      return false;
    }
    if (colon && part > 2) return false;
  }
  return colon && part > 0;
}

bool looks_like_date(std::string_view text) {
  return text.size() >= 10 && all_digits(text.substr(0, 4)) && text[4] == '-' && all_digits(text.substr(5, 2)) &&
         text[7] == '-' && all_digits(text.substr(8, 2)) && (text.size() == 10 || text[10] == 'T' || text[10] == ' ');
}

int64_t parse_digits(std::string_view text, bool& overflow) {
  std::string clean(text.starts_with('+') ? text.substr(1) : text);
  clean.erase(std::remove(clean.begin(), clean.end(), '_'), clean.end());
  int64_t value = 0;
  const auto result = std::from_chars(clean.data(), clean.data() + clean.size(), value);
  overflow = result.ec != std::errc();
  return value;
}

// The integer that a slip most likely meant: 08 -> 8, 1e3 -> 1000, 0x10 -> 16, 8.0 -> 8.
std::string integer_meant(std::string_view text) {
  const std::string_view body = without_sign(text);
  const std::string_view sign = text.starts_with('-') ? "-" : "";
  if (body.size() > 1 && body[0] == '0' && all_digits(body)) {
    const size_t first = std::min(body.find_first_not_of('0'), body.size() - 1);
    std::string decimal = fmt::format("{}{}", sign, body.substr(first));
    const bool octal = body.find_first_of("89") == std::string_view::npos && body.size() < 20;
    if (!octal) return fmt::format("write {}", decimal);
    const auto value = std::strtoll(std::string(body).c_str(), nullptr, 8);
    if (fmt::format("{}{}", sign, value) == decimal) return fmt::format("write {}", decimal);
    return fmt::format("write {} or {}{}: a leading zero means octal to some readers", decimal, sign, value);
  }
  if (body.starts_with("0x") && body.size() > 2 && body.size() < 18)
    return fmt::format("write {}{}", sign, std::strtoull(std::string(body).c_str(), nullptr, 16));
  if (looks_like_number(text)) {
    const double value = std::strtod(std::string(text).c_str(), nullptr);
    if (std::isfinite(value) && value == std::floor(value) && std::fabs(value) < 1e15)
      return fmt::format("write {}", static_cast<int64_t>(value));
  }
  return {};
}

}  // namespace

std::string describe(const Node& node) {
  if (!node.is_scalar()) return std::string(kind_name(node.kind));
  constexpr size_t kShown = 60;
  std::string text = node.text.substr(0, kShown);
  if (node.text.size() > kShown) text += "...";
  return fmt::format("{}\"{}\"", node.quoted ? "text " : "", text);
}

std::string_view mistaken_for(std::string_view text) {
  // Numbers and dates begin with one of these, and so do the words for booleans.
  constexpr std::string_view kFirst = "0123456789+-.tTfFyYnNoO";
  if (text == "=") return "a value without meaning";  // YAML 1.1's default value, which its readers refuse
  if (text.empty() || kFirst.find(text.front()) == std::string_view::npos) return {};
  if (is_true_word(text) || is_false_word(text)) return "a boolean";
  if (looks_like_number(text) || looks_like_base60(text)) return "a number";
  if (looks_like_date(text)) return "a date";
  return {};
}

Decoded<int64_t> decode_integer(const Node& node) {
  if (!node.is_scalar() || node.quoted || !is_strict_integer(node.text)) {
    ScalarProblem problem{"an integer", describe(node), {}};
    if (node.quoted && is_strict_integer(node.text))
      problem.help = fmt::format("write {} without quotes", node.text);
    else if (node.is_scalar() && !node.quoted)
      problem.help = integer_meant(node.text);
    return base::Unexpected{std::move(problem)};
  }
  bool overflow = false;
  const int64_t value = parse_digits(node.text, overflow);
  if (overflow) return base::Unexpected{ScalarProblem{"an integer of at most 64 bits", describe(node), {}}};
  return value;
}

Decoded<double> decode_number(const Node& node) {
  if (!node.is_scalar() || node.quoted || !is_plain_decimal(node.text)) {
    ScalarProblem problem{"a number", describe(node), {}};
    if (node.quoted && is_plain_decimal(node.text)) {
      problem.help = fmt::format("write {} without quotes", node.text);
    } else if (node.is_scalar() && !node.quoted && looks_like_number(node.text)) {
      const double value = std::strtod(node.text.c_str(), nullptr);
      if (std::isfinite(value) && std::fabs(value) < 1e15) problem.help = fmt::format("write {}", value);
    }
    return base::Unexpected{std::move(problem)};
  }
  std::string clean = node.text;
  clean.erase(std::remove(clean.begin(), clean.end(), '_'), clean.end());
  if (clean.starts_with('+')) clean.erase(0, 1);
  double value = 0;
#if defined(__cpp_lib_to_chars)
  std::from_chars(clean.data(), clean.data() + clean.size(), value);
#else
  value = std::strtod(clean.c_str(), nullptr);
#endif
  return value;
}

Decoded<bool> decode_boolean(const Node& node) {
  if (node.is_scalar() && !node.quoted && node.text == "true") return true;
  if (node.is_scalar() && !node.quoted && node.text == "false") return false;
  ScalarProblem problem{"true or false", describe(node), {}};
  if (node.is_scalar() && (is_true_word(node.text) || node.text == "1")) problem.help = "write true";
  if (node.is_scalar() && (is_false_word(node.text) || node.text == "0")) problem.help = "write false";
  return base::Unexpected{std::move(problem)};
}

Decoded<std::string> decode_text(const Node& node) {
  if (!node.is_scalar()) return base::Unexpected{ScalarProblem{"text", describe(node), {}}};
  if (node.quoted) return node.text;
  const std::string_view other = mistaken_for(node.text);
  if (other.empty()) return node.text;
  return base::Unexpected{ScalarProblem{"text", fmt::format("{}, which is {} without quotes", node.text, other),
                                        fmt::format("write \"{}\" in quotes", node.text)}};
}

}  // namespace sweep::yaml
