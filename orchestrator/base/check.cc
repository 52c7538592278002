#include "orchestrator/base/check.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace sweep::base {

namespace {
constexpr int kInternalError = 70;  // EX_SOFTWARE: a bug in sweepctl
}

void check_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "sweepctl: internal error: %s does not hold at %s:%d; please report this\n", condition, file,
               line);
  std::fflush(stderr);
  _exit(kInternalError);
}

}  // namespace sweep::base
