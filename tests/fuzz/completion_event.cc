// Events of a completion stream: read without a tree, an event says what it says read with one.
#include "orchestrator/loadgen/completion_event.h"

#include <cstdint>
#include <string_view>

#include "tests/fuzz/require.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sweep;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  loadgen::CompletionEvent quick;
  loadgen::CompletionEvent tree;
  const bool is_quick = loadgen::read_event_quickly(text, quick);
  const bool is_object = loadgen::read_event_as_tree(text, tree);
  if (is_quick) fuzz::require(is_object && quick == tree, "the two ways of reading an event differ");
  if (is_object)
    fuzz::require(tree.ids_listed >= static_cast<int64_t>(tree.token_ids.size()), "more ids than were listed");
  return 0;
}
