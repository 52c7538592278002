// The command line as a whole: parses, runs the chosen sub-command, gives the exit code.
#pragma once

namespace sweep::cli {

int run_application(int argc, char** argv);

}  // namespace sweep::cli
