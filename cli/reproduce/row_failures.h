#pragma once

#include <functional>
#include <string>

#include "cli/exit_codes.h"

namespace triaccel::cli {

/// Rows of a table that could not be made: each is reported and left out, and the others are made.
class RowFailures {
 public:
  /// Does `work` for the row of that name. The user's mistake ends the command.
  void guard(const std::string& name, const std::function<void()>& work);

  bool any() const { return exit_code_ != kOk; }
  int exit_code() const { return exit_code_; }  // of the first one; kOk without any

 private:
  int exit_code_ = kOk;
};

}  // namespace triaccel::cli
