#pragma once

#include <CLI/App.hpp>

namespace triaccel::cli {

/// Adds `fdsr` to the command `reproduce`.
void add_reproduce_fdsr(CLI::App& reproduce, int& exit_code);

}  // namespace triaccel::cli
