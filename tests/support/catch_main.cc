#ifdef SWEEPCTL_CATCH2_V2
#define CATCH_CONFIG_RUNNER
#endif
#include "tests/support/catch.h"

int main(int argc, char** argv) {
  Catch::Session session;
#ifdef SWEEPCTL_CATCH2_V2
  // As in v3: a name that matches no test is a failure.
  session.configData().warnings =
      static_cast<Catch::WarnAbout::What>(session.configData().warnings | Catch::WarnAbout::NoTests);
#endif
  return session.run(argc, argv);
}
