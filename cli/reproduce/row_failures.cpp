#include "cli/reproduce/row_failures.h"

#include <fmt/format.h>

#include <exception>

#include "cli/failures.h"
#include "triaccel/base/error.h"

namespace triaccel::cli {

void RowFailures::guard(const std::string& name, const std::function<void()>& work) {
  try {
    work();
  } catch (const UsageError&) {
    throw;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{} failed:\n", name);
    const int code = report_failure(error);
    if (!any()) exit_code_ = code;
  }
}

}  // namespace triaccel::cli
