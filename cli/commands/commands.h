#pragma once

#include <CLI/App.hpp>

namespace triaccel::cli {

// Each adds one command to the program. The callback sets `exit_code`, throws one of the errors of
// base/error.h, or leaves it 0.
void add_train(CLI::App& program, int& exit_code);
void add_resume(CLI::App& program, int& exit_code);
void add_eval(CLI::App& program);
void add_predict(CLI::App& program);
void add_find_lr(CLI::App& program, int& exit_code);
void add_demo(CLI::App& program, int& exit_code);
void add_memory(CLI::App& program);
void add_plan(CLI::App& program);
void add_doctor(CLI::App& program, int& exit_code);
void add_inspect(CLI::App& program);
void add_bench(CLI::App& program);
void add_ls(CLI::App& program);
void add_budget(CLI::App& program);
void add_version(CLI::App& program);

}  // namespace triaccel::cli
