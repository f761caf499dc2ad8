#pragma once

#include <CLI/App.hpp>

namespace triaccel::cli {

/// Adds `elasticzo` to the command `reproduce`.
void add_reproduce_elastic(CLI::App& reproduce, int& exit_code);

}  // namespace triaccel::cli
