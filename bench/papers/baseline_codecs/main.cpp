#include <cstdlib>

#include "bench/papers/baseline_codecs/baseline_codec.h"
#include "cli/program.h"

/// The command line of triaccel, with the codecs of other systems next to the built-in ones.
int main(int argc, char** argv) {
  triaccel::register_baseline_codecs();
  std::_Exit(triaccel::cli::run_program(argc, argv));
}
