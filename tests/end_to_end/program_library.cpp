#include "cli/program.h"

/// The program's main function, for loaded_program.py.
extern "C" int triaccel_main(int argc, char** argv) {
  return triaccel::cli::run_program(argc, argv);
}
