// Progress of a run on standard error: one line per finished stage; on a terminal also a line that is rewritten.
#pragma once

#include <memory>

#include "orchestrator/cli/console.h"
#include "orchestrator/pipeline/progress.h"

namespace sweep::cli {

// Terminal: colours, a bar and an estimate. Elsewhere: plain lines with the time of day, at most one a minute per
// stage. Quiet: nothing.
std::unique_ptr<pipeline::Progress> make_progress(const Console& console, bool quiet);

}  // namespace sweep::cli
