#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace triaccel::int8_program {

using Words = std::vector<std::string>;

// The commands. Each takes the words after its name and returns the exit code of the program.

/// Trains in a new folder, which is created once all input has been read and fits the budget.
int train_command(const Words& words);

/// Continues a run from its newest valid checkpoint, or from the start if it has none.
int resume_command(const Words& words);

/// The newest checkpoint of a run, or exported weights, on the test set.
int eval_command(const Words& words);

/// Writes the weights of a run's newest checkpoint to a file that does not exist yet.
int export_command(const Words& words);

void print(const std::string& line);

/// As one line in ASCII.
void print_json(const nlohmann::ordered_json& json);

}  // namespace triaccel::int8_program
