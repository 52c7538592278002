#include "orchestrator/cli/application.h"

int main(int argc, char** argv) {
  return sweep::cli::run_application(argc, argv);
}
