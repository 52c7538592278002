#include "tests/support/completion_text.h"

#include <nlohmann/json.hpp>
#include <sstream>

namespace sweep::test {

std::string event(const nlohmann::json& body) {
  return "data: " + body.dump() + "\n\n";
}

int64_t words_in(const std::string& text) {
  std::istringstream words(text);
  int64_t count = 0;
  for (std::string word; words >> word;) ++count;
  return count;
}

}  // namespace sweep::test
