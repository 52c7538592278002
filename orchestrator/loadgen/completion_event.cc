#include "orchestrator/loadgen/completion_event.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <system_error>

#include "orchestrator/base/json_fields.h"
#include "orchestrator/base/json_nesting.h"

namespace sweep::loadgen {

namespace {

using base::count_in;
using base::member;
using nlohmann::json;

constexpr size_t kLongestMessage = 300;

std::string_view text_in(const json& object, const char* name) {
  const json* value = member(object, name);
  return value != nullptr && value->is_string() ? std::string_view(value->get_ref<const std::string&>())
                                                : std::string_view();
}

// The number in an escape like \ud83d at the beginning of the text.
std::optional<unsigned> escaped_unit(std::string_view text) {
  constexpr size_t kEscape = 6;
  unsigned unit = 0;
  if (text.size() < kEscape || !text.starts_with("\\u")) return std::nullopt;
  const auto [end, error] = std::from_chars(text.data() + 2, text.data() + kEscape, unit, 16);
  if (error != std::errc() || end != text.data() + kEscape) return std::nullopt;
  return unit;
}

// Servers that count text in UTF-16 split a character over two events, and escape each half. The grammar of JSON allows
// that, readers do not: halves become U+FFFD.
std::string without_halves(std::string_view text) {
  const auto is_first = [](const std::optional<unsigned>& unit) { return unit && (*unit & 0xFC00U) == 0xD800U; };
  const auto is_second = [](const std::optional<unsigned>& unit) { return unit && (*unit & 0xFC00U) == 0xDC00U; };
  constexpr size_t kEscape = 6;
  std::string whole;
  while (!text.empty()) {
    const auto unit = escaped_unit(text);
    size_t length = 1;
    if (is_first(unit) && is_second(escaped_unit(text.substr(kEscape))))
      length = 2 * kEscape;
    else if (unit)
      length = kEscape;
    else if (text.front() == '\\')
      length = 2;  // an escaped backslash begins no escape
    whole += length == kEscape && (is_first(unit) || is_second(unit)) ? "\\ufffd" : text.substr(0, length);
    text.remove_prefix(std::min(length, text.size()));
  }
  return whole;
}

// Most events have fewer brackets than may nest: counting them is quicker than following them.
bool is_too_deep(std::string_view text) {
  const auto brackets = std::count_if(text.begin(), text.end(), [](char c) { return c == '{' || c == '['; });
  return static_cast<size_t>(brackets) > base::kDeepestJson && base::json_nesting(text) > base::kDeepestJson;
}

// Discarded if it is no JSON, or nests deeper than any reply: writing such a tree as text would exhaust the stack.
json parse_shallow(std::string_view text) {
  if (is_too_deep(text)) return json(json::value_t::discarded);
  json parsed = json::parse(text, nullptr, false);
  if (parsed.is_discarded() &&
      (text.find("\\ud") != std::string_view::npos || text.find("\\uD") != std::string_view::npos))
    parsed = json::parse(without_halves(text), nullptr, false);
  return parsed;
}

// The token-bearing text of a choice, in whichever channel it comes.
std::string text_of(const json& choice) {
  std::string text(text_in(choice, "text"));
  const json* delta = member(choice, "delta");
  if (delta == nullptr) return text;
  for (const char* channel : {"content", "reasoning_content", "reasoning"}) text += text_in(*delta, channel);
  if (const json* calls = member(*delta, "tool_calls"); calls != nullptr && !calls->empty())
    text += calls->dump(-1, ' ', false, json::error_handler_t::replace);
  return text;
}

void take_choice(const json& choice, CompletionEvent& event) {
  event.has_choice = true;
  event.finish_reason = text_in(choice, "finish_reason");
  event.text = text_of(choice);
  const json* ids = member(choice, "token_ids");
  if (ids == nullptr || !ids->is_array()) return;
  event.ids_listed = static_cast<int64_t>(ids->size());
  for (const json& id : *ids) {
    if (!id.is_number_integer()) return;
    event.token_ids.push_back(id.get<int64_t>());
  }
}

void take_usage(const json& usage, CompletionEvent& event) {
  event.has_usage = true;
  event.prompt_tokens = count_in(usage, "prompt_tokens");
  event.completion_tokens = count_in(usage, "completion_tokens");
  if (const json* details = member(usage, "prompt_tokens_details"))
    event.cached_tokens = count_in(*details, "cached_tokens");
}

}  // namespace

std::string shortened(std::string_view text) {
  if (text.size() <= kLongestMessage) return std::string(text);
  size_t cut = kLongestMessage;
  while (cut > 0 && (static_cast<unsigned char>(text[cut]) & 0xC0) == 0x80) --cut;
  return std::string(text.substr(0, cut)) + "...";
}

std::string error_message(std::string_view text) {
  const json body = parse_shallow(text);
  if (!body.is_object()) return {};
  const json* error = member(body, "error");
  if (error != nullptr && error->is_string()) return shortened(error->get_ref<const std::string&>());
  const json& holder = error != nullptr ? *error : body;
  for (const char* name : {"message", "detail"})
    if (const std::string_view message = text_in(holder, name); !message.empty()) return shortened(message);
  return error != nullptr ? shortened(error->dump(-1, ' ', false, json::error_handler_t::replace)) : std::string();
}

bool read_event_as_tree(std::string_view text, CompletionEvent& event) {
  event = {};
  const json body = parse_shallow(text);
  if (!body.is_object()) return false;
  event.has_error = member(body, "error") != nullptr;
  if (event.has_error) return true;
  const json* choices = member(body, "choices");
  if (choices != nullptr && choices->is_array() && !choices->empty()) take_choice(choices->front(), event);
  if (const json* usage = member(body, "usage")) take_usage(*usage, event);
  return true;
}

bool read_event(std::string_view text, CompletionEvent& event) {
  return read_event_quickly(text, event) || read_event_as_tree(text, event);
}

}  // namespace sweep::loadgen
