#include "cli/program.h"

int main(int argc, char** argv) { return triaccel::cli::run_program(argc, argv); }
