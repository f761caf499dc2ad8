#pragma once

#include <exception>

namespace triaccel::cli {

/// Says on standard error what went wrong, and answers with its exit code.
int report_failure(const std::exception& error);

}  // namespace triaccel::cli
