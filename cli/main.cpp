#include <cstdlib>

#include "cli/program.h"

/// Ends without destructors of static objects: those of torch's registries take a quarter of a
/// second.
int main(int argc, char** argv) { std::_Exit(triaccel::cli::run_program(argc, argv)); }
