#include "cli/program.h"

#include <torch/csrc/autograd/engine.h>

#include <string>
#include <vector>

#include "python/bindings/bindings.h"
#include "triaccel/base/version.h"

namespace triaccel::python {
namespace {

int run_program(std::vector<std::string> words) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const py::gil_scoped_release release;
  // No Python code takes part, so autograd runs as in a C++ program.
  torch::autograd::set_default_engine_stub(&torch::autograd::Engine::get_base_engine);
  return cli::run_program(static_cast<int>(words.size()), argv.data());
}

}  // namespace

void bind_program(py::module_& module) {
  module.def("run_program", &run_program, py::arg("arguments"),
             "Runs the command line with the given arguments, the program's name first; returns "
             "its exit code. Takes over the process: autograd of Python code no longer works.");
  module.def("version", [] { return std::string(version()); });
  module.def("build_commit", [] { return std::string(build_commit()); });
}

}  // namespace triaccel::python
