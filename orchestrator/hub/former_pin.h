// A pin against the one that it replaces.
#pragma once

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/weights/pin.h"

namespace sweep::hub {

// Where two pins of one model and commit say different things about a file or the index (hub/former-pin). What only one
// of them knows is no difference, except for a file that a complete pin lists and the new one does not.
void compare_with_former(const weights::Pin& former, const weights::Pin& pin, diag::Diagnostics& diagnostics);

}  // namespace sweep::hub
