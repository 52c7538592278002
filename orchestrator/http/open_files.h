// How many connections this process may have at a time.
#pragma once

#include <cstdint>

#include "orchestrator/diag/diagnostic.h"

namespace sweep::http {

// Raises the soft limit of open files (RLIMIT_NOFILE) as far as so many connections beside what is open now need.
// Fails, with the numbers, if the hard limit is too low for them.
diag::Result<diag::Done> make_room_for(int64_t connections);

}  // namespace sweep::http
