#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "python/bindings/bindings.h"
#include "python/bindings/group_optimizer.h"

namespace triaccel::python {
namespace {

/// Name, tensor and layer.
using PythonParameter = std::tuple<std::string, at::Tensor, std::int64_t>;
using PythonGroup = std::pair<OptimizerOptions, std::vector<PythonParameter>>;

std::shared_ptr<GroupOptimizer> make_group_optimizer(const std::vector<PythonGroup>& groups,
                                                     std::int64_t layer_count) {
  std::vector<ParameterGroup> ours;
  for (const auto& [options, parameters] : groups) {
    ParameterGroup& group = ours.emplace_back(ParameterGroup{.options = options, .parameters = {}});
    for (const auto& [name, tensor, layer] : parameters)
      group.parameters.push_back({.name = name, .tensor = tensor, .layer = layer});
  }
  return std::make_shared<GroupOptimizer>(std::move(ours), layer_count);
}

StateFormat state_format(int state_bits, bool state_on_host) {
  if (state_on_host) return StateFormat::Host;
  return state_bits == 8 ? StateFormat::Fp8 : StateFormat::Fp32;
}

OptimizerOptions sgd_options(int state_bits, bool state_on_host, double momentum, bool nesterov,
                             double weight_decay, std::uint64_t seed) {
  return {.kind = OptimizerKind::Sgd,
          .state = state_format(state_bits, state_on_host),
          .momentum = momentum,
          .nesterov = nesterov,
          .weight_decay = weight_decay,
          .seed = seed};
}

OptimizerOptions adamw_options(int state_bits, bool state_on_host, double beta1, double beta2,
                               double epsilon, double weight_decay, std::uint64_t seed) {
  return {.kind = OptimizerKind::AdamW,
          .state = state_format(state_bits, state_on_host),
          .weight_decay = weight_decay,
          .beta1 = beta1,
          .beta2 = beta2,
          .epsilon = epsilon,
          .seed = seed};
}

}  // namespace

void bind_optimizers(py::module_& module) {
  py::class_<OptimizerOptions>(module, "OptimizerOptions", "Hyperparameters of one group.")
      .def_static("sgd", &sgd_options, py::arg("state_bits"), py::arg("state_on_host"),
                  py::arg("momentum"), py::arg("nesterov"), py::arg("weight_decay"),
                  py::arg("seed"))
      .def_static("adamw", &adamw_options, py::arg("state_bits"), py::arg("state_on_host"),
                  py::arg("beta1"), py::arg("beta2"), py::arg("epsilon"), py::arg("weight_decay"),
                  py::arg("seed"));
  using Released = py::call_guard<py::gil_scoped_release>;
  py::class_<GroupOptimizer, std::shared_ptr<GroupOptimizer>>(
      module, "GroupOptimizer", "Fused updates of parameter groups; see group_optimizer.h.")
      .def(py::init(&make_group_optimizer), py::arg("groups"), py::arg("layer_count") = 1)
      .def("set_group", &GroupOptimizer::set_group, py::arg("group"), py::arg("options"),
           py::arg("learning_rate"))
      .def("step", &GroupOptimizer::step, Released())
      .def("set_factors", &GroupOptimizer::set_factors, py::arg("factors"))
      .def("counts", &GroupOptimizer::counts)
      .def("moments", &GroupOptimizer::moments, py::arg("parameter"))
      .def("moment_values", &GroupOptimizer::moment_values, py::arg("parameter"))
      .def("load_moment", &GroupOptimizer::load_moment, py::arg("parameter"), py::arg("moment"),
           py::arg("values"))
      .def("state_bytes", &GroupOptimizer::state_bytes)
      .def("host_state_bytes", &GroupOptimizer::host_state_bytes);
}

}  // namespace triaccel::python
