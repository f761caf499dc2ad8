#pragma once

#include <string_view>

namespace triaccel::cli {

/// Begins every message. Set before the first.
inline const char* program_name = "triaccel";

/// Call before anything is opened. A closed pipe or a file over its size limit becomes a failed
/// write, and a closed standard stream cannot receive the content of a file of ours.
void prepare_output();

/// Writes to standard error. What cannot be shown there is lost and ends nothing.
void say(std::string_view text);

/// Whether writing to standard output has failed.
bool output_failed();

/// Flushes standard output and returns the exit code of the program: lost output is a storage
/// error, unless the reader of a pipe went away.
int finish_output(int exit_code);

}  // namespace triaccel::cli
