#pragma once

#include <torch/csrc/utils/pybind.h>

// One function per file of bindings; module.cpp calls them all.
namespace triaccel::python {

namespace py = pybind11;

void bind_errors(py::module_& module);
void bind_memory(py::module_& module);
void bind_optimizers(py::module_& module);
void bind_program(py::module_& module);
void bind_session(py::module_& module);

}  // namespace triaccel::python
