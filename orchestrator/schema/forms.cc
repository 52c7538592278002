#include "orchestrator/base/hex.h"
#include "orchestrator/schema/kinds.h"

namespace sweep::schema {

const TextForm kCommitForm{"a commit of 40 hexadecimal digits in lower case",
                           [](std::string_view text) { return base::is_lower_hex(text, 40); }, "^[0-9a-f]{40}$",
                           "a branch or a short hash can come to mean other content"};
const TextForm kSha256Form{"a SHA-256 of 64 hexadecimal digits in lower case",
                           [](std::string_view text) { return base::is_lower_hex(text, 64); }, "^[0-9a-f]{64}$"};

}  // namespace sweep::schema
