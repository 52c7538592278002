// What one event of a completion stream says, read from its JSON. Internal to this module.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sweep::loadgen {

struct CompletionEvent {
  bool has_error = false;  // an error in place of a completion; the rest is then not filled in
  bool has_usage = false;
  std::optional<int64_t> prompt_tokens;      // of the usage; absent where it does not say
  std::optional<int64_t> completion_tokens;  // likewise
  std::optional<int64_t> cached_tokens;      // likewise
  bool has_choice = false;                   // the first one counts
  std::string finish_reason;                 // empty if none
  std::string text;                          // of whichever channel it came in
  std::vector<int64_t> token_ids;            // up to the first that is no integer
  int64_t ids_listed = 0;                    // with it and what follows

  friend bool operator==(const CompletionEvent&, const CompletionEvent&) = default;
};

// False if the text is no JSON object.
bool read_event(std::string_view text, CompletionEvent& event);

// The two ways in which it is read. The quick one builds no tree, which is most of the work of reading an event; it
// gives up (false) on whatever it does not expect, right or wrong, and never reads an event otherwise than the other.
bool read_event_quickly(std::string_view text, CompletionEvent& event);
bool read_event_as_tree(std::string_view text, CompletionEvent& event);

// The message of an error object as servers send it ({"error":{"message":..}}, {"message":..}, {"detail":..}), cut to a
// sane length; empty if `text` is none.
std::string error_message(std::string_view text);

// Cut between characters, with "..." where something is left out.
std::string shortened(std::string_view text);

}  // namespace sweep::loadgen
