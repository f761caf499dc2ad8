#include <c10/util/Exception.h>
#include <torch/csrc/Exceptions.h>

#include <exception>

#include "python/bindings/bindings.h"
#include "triaccel/base/error.h"
#include "triaccel/device/cpu_memory.h"

namespace triaccel::python {
namespace {

void translate(std::exception_ptr thrown) {
  if (!thrown) return;
  try {
    std::rethrow_exception(thrown);
  } catch (const UsageError& error) {
    PyErr_SetString(PyExc_ValueError, error.what());
  } catch (const DataError& error) {
    PyErr_SetString(PyExc_ValueError, error.what());
  } catch (const StorageError& error) {
    PyErr_SetString(PyExc_OSError, error.what());
  } catch (const RunLocked& error) {
    PyErr_SetString(PyExc_OSError, error.what());
  } catch (const NumericalFailure& error) {
    PyErr_SetString(PyExc_FloatingPointError, error.what());
  } catch (const OutOfMemory& error) {
    PyErr_SetString(py::module_::import("torch").attr("OutOfMemoryError").ptr(), error.what());
  } catch (const c10::Error&) {
    torch::translate_exception_to_python(thrown);
  }
}

}  // namespace

/// Our errors as Python's: UsageError and DataError are ValueErrors, storage errors OSErrors, and
/// out of memory is torch.OutOfMemoryError.
void bind_errors(py::module_&) { py::register_local_exception_translator(&translate); }

void bind_memory(py::module_& module) {
  module.def("install_cpu_memory", &install_cpu_memory,
             "Counts the bytes of CPU tensors from now on; once per process.");
  module.def("limit_cpu_memory", &limit_cpu_memory, py::arg("bytes"),
             "Hard limit on the bytes of CPU tensors, 0 for none.");
  module.def(
      "cpu_memory_used", [] { return read_cpu_memory().used; },
      "Bytes of live CPU tensors allocated since install_cpu_memory().");
}

}  // namespace triaccel::python

PYBIND11_MODULE(_C, module) {
  using namespace triaccel::python;
  module.doc() = "The engine of Tri-Accel.";
  bind_errors(module);
  bind_memory(module);
  bind_program(module);
  bind_optimizers(module);
  bind_session(module);
}
