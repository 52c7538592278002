#include "orchestrator/weights/layout.h"

namespace sweep::weights {

std::string_view layout_name(Layout layout) {
  switch (layout) {
    case Layout::kPlain:
      return "plain";
    case Layout::kHubCache:
      return "hub-cache";
    case Layout::kLocalDir:
      return "local-dir";
  }
  return {};
}

}  // namespace sweep::weights
