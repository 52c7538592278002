// Keeping a key out of what is shown and stored: servers repeat what they were sent.
#pragma once

#include <string>
#include <string_view>

#include "orchestrator/diag/diagnostic.h"

namespace sweep::http {

// Whether the key can be sent in a header, and found again in whatever text repeats it: visible ASCII without quotes
// and backslashes, so that JSON holds it as it is. Fails with http/bad-key, without showing the key. `source`: where it
// comes from, for the message.
diag::Result<diag::Done> check_key(std::string_view key, std::string_view source);

// The text with "(secret)" for each occurrence of the key, and for a beginning of the key at the end of the text, where
// an excerpt ("...") may have cut it. As it is if the key is empty.
std::string without_secret(std::string text, std::string_view key);

}  // namespace sweep::http
