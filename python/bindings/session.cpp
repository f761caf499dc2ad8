#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "python/bindings/bindings.h"
#include "python/bindings/group_optimizer.h"
#include "triaccel/base/byte_size.h"
#include "triaccel/base/error.h"
#include "triaccel/device/cpu_memory.h"
#include "triaccel/device/device_choice.h"
#include "triaccel/device/out_of_memory.h"
#include "triaccel/trainer/attach/attached_training.h"
#include "triaccel/trainer/attach/zeroth_order_training.h"

namespace triaccel::python {
namespace {

LayerKind kind_of(const std::string& name) {
  if (name == "convolution") return LayerKind::Convolution;
  return name == "embedding" ? LayerKind::Embedding : LayerKind::Linear;
}

/// Of a Python exception: why memory ran out, or nothing. Frames of the traceback keep tensors
/// alive, so the exception must not outlive the caller's handler.
std::optional<std::string> out_of_memory(py::error_already_set& error) {
  const std::string what = py::str(error.value());
  const bool is_torchs = error.matches(py::module_::import("torch").attr("OutOfMemoryError"));
  if (is_torchs || error.matches(PyExc_MemoryError) || is_out_of_memory(what)) return what;
  return {};
}

/// What a closure returned: a scalar tensor, or a pair (sum, count).
ClosureLoss loss_from(const py::object& returned) {
  constexpr const char* kExpected =
      "the closure must return the batch's mean loss as a tensor of one element, or a pair (sum, "
      "count); got ";
  const auto scalar = [&](const py::handle& value) {
    if (!THPVariable_Check(value.ptr()))
      throw UsageError(text(kExpected, std::string(py::str(py::type::handle_of(value)))));
    at::Tensor tensor = py::cast<at::Tensor>(value);
    if (tensor.numel() != 1) throw UsageError(text(kExpected, "shape ", tensor.sizes()));
    return tensor;
  };
  ClosureLoss loss;
  if (py::isinstance<py::tuple>(returned) && py::len(returned) == 2) {
    const py::tuple pair = returned;
    loss.loss = scalar(pair[0]);
    loss.count =
        THPVariable_Check(pair[1].ptr())
            ? scalar(pair[1]).to(loss.loss.device())
            : at::full({}, py::cast<double>(pair[1]), loss.loss.options().requires_grad(false));
  } else {
    loss.loss = scalar(returned);
  }
  if (at::GradMode::is_enabled() && !loss.loss.requires_grad())
    throw UsageError(
        "the loss that the closure returned does not depend on parameters that require gradients; "
        "was it computed under torch.no_grad() or detached?");
  return loss;
}

py::dict as_dict(const StepReport& report) {
  py::dict all, memory;
  all["step"] = report.step;
  all["samples"] = report.samples;
  all["loss"] = report.loss;
  all["seconds"] = report.seconds;
  all["steps_in_interval"] = report.interval_steps;
  all["samples_in_interval"] = report.interval_samples;
  all["gradient_norm"] = report.gradient_norm;
  all["nonfinite_losses"] = report.nonfinite_losses;
  all["skipped_steps"] = report.skipped_steps;
  all["memory_retries"] = report.memory_retries;
  memory["used"] = report.memory.used;
  memory["peak"] = report.memory.peak;
  memory["reserved"] = report.memory.reserved;
  memory["budget"] = report.memory.limit;
  all["memory"] = memory;
  if (report.saved) {
    all["activation_bytes"] = report.saved->unique_bytes;
    all["activation_bytes_held"] = report.saved->all_held_bytes();
  }
  return all;
}

/// A Python function of (first sample, number of samples), called with the interpreter's lock.
ClosureBatch::Closure closure_from(const py::function& function) {
  return [&function](std::int64_t first, std::int64_t count) {
    const py::gil_scoped_acquire acquire;
    try {
      return loss_from(function(first, count));
    } catch (py::error_already_set& error) {
      const std::optional<std::string> why = out_of_memory(error);
      if (!why) throw;
      throw OutOfMemory(*why);
    }
  };
}

using Parameter = std::tuple<std::string, at::Tensor, std::int64_t>;  // name, tensor, layer

StepNetwork network_from(const std::vector<Parameter>& parameters, std::vector<at::Tensor> buffers,
                         std::int64_t layers) {
  StepNetwork network{.buffers = std::move(buffers), .layer_count = layers};
  for (const auto& [name, tensor, layer] : parameters)
    network.parameters.push_back({name, tensor, layer});
  return network;
}

/// An attached model as Python sees it.
class Session {
 public:
  // name, kind, names of parameters, weight, whether batch norm follows
  using PythonLayer =
      std::tuple<std::string, std::string, std::vector<std::string>, at::Tensor, bool>;

  Session(const std::vector<Parameter>& parameters, std::vector<at::Tensor> others,
          std::vector<at::Tensor> buffers, const std::vector<PythonLayer>& layers,
          const std::string& budget, const std::string& precision, const std::string& policy,
          std::int64_t control_interval, std::int64_t smallest_pass, const std::string& activations,
          std::int64_t planned_pass, double activation_ratio, const std::string& curvature,
          std::int64_t curvature_every, double momentum, bool traced, bool elastic, bool reports,
          std::shared_ptr<GroupOptimizer> optimizer, std::int64_t applied_steps) {
    require(!parameters.empty(), "attach", "there is nothing to measure");
    const c10::Device device = std::get<1>(parameters.front()).device();
    StepNetwork network = network_from(parameters, std::move(buffers), std::ssize(layers));
    network.others = std::move(others);
    LayerRegistry registry;
    for (const auto& [name, kind, names, weight, normalized] : layers) {
      registry.add(
          {.name = name, .kind = kind_of(kind), .parameters = names, .normalized = normalized});
      network.weights.push_back(weight);
    }
    const std::vector<std::string> modes = activation_modes();
    if (std::ranges::find(modes, activations) == modes.end())
      throw UsageError("[attach] activations " + not_one_of(activations, modes));
    RunConfig::Activations kept;
    kept.keep = activations;
    kept.ratio = activation_ratio;
    kept.adapt = kept.ratio == kept.kAutoRatio;  // another ratio stays as the user has set it
    const py::gil_scoped_release release;
    training_ = std::make_unique<AttachedTraining>(
        std::move(network), registry,
        AttachOptions{.budget_bytes = Budget(budget).bytes_on(device_total_bytes(device)),
                      .precision = precision,
                      .policy = policy,
                      .control_interval = control_interval,
                      .smallest_pass = smallest_pass,
                      .planned_pass = planned_pass,
                      .activations = kept,
                      .curvature = curvature,
                      .curvature_every = curvature_every,
                      .momentum = momentum,
                      .traced = traced,
                      .elastic = elastic,
                      .reports = reports,
                      .optimizer = std::move(optimizer),
                      .applied_steps = applied_steps},
        device);
  }

  at::Tensor backward(const std::vector<std::int64_t>& parts, const py::function& closure) {
    const py::gil_scoped_release release;
    return training_->backward(parts, closure_from(closure));
  }

  at::Tensor step(const std::vector<std::int64_t>& parts, const py::function& closure,
                  std::uint64_t key) {
    const py::gil_scoped_release release;
    return training_->step(parts, closure_from(closure), key);
  }

  /// (bytes, pass size, samples per second, lossiness) of every way to split a batch.
  std::vector<std::tuple<std::int64_t, std::int64_t, double, std::string>> memory_plans(
      std::int64_t samples, const py::function& closure) {
    const py::gil_scoped_release release;
    std::vector<std::tuple<std::int64_t, std::int64_t, double, std::string>> plans;
    for (const MemoryPlan& plan : training_->memory_plans(samples, closure_from(closure)))
      plans.emplace_back(plan.bytes(), plan.pass_size, plan.samples_per_second,
                         std::string(name_of(plan.lossiness)));
    return plans;
  }

  /// (pass size, what it is worth) of the best of them in the budget.
  std::optional<std::pair<std::int64_t, double>> best_plan(std::int64_t samples,
                                                           const py::function& closure) {
    const py::gil_scoped_release release;
    const auto plan = training_->best_plan(samples, closure_from(closure));
    if (!plan) return {};
    return std::pair(plan->pass_size, worth_of(*plan));
  }

  void finish_step(double learning_rate) {
    const py::gil_scoped_release release;
    training_->finish_step(learning_rate);
  }
  bool take_back() {
    const py::gil_scoped_release release;
    return training_->take_back();
  }
  void undo() {
    const py::gil_scoped_release release;
    training_->undo();
  }
  void hold_precision() { training_->hold_precision(); }
  std::vector<std::string> take_notices() { return training_->take_notices(); }
  std::vector<std::string> take_events() { return training_->take_events(); }

  py::dict plan() const {
    const StepPlan& plan = training_->plan();
    py::dict layers, scales, all;
    for (std::size_t i = 0; i < plan.layers.size(); ++i) {
      const py::str name(training_->layer_names()[i]);
      layers[name] = std::string(name_of(plan.layers[i].compute));
      scales[name] = plan.layers[i].learning_rate_scale;
    }
    all["batch_size"] = plan.batch_size;
    all["pass_size"] = plan.micro_batch_size;
    all["activations"] = training_->activations();
    all["learning_rate_scale"] = plan.learning_rate_scale;
    all["learning_rate_scales"] = scales;
    all["precision"] = layers;
    return all;
  }

  py::dict report() {
    const StepReport report = [&] {
      const py::gil_scoped_release release;
      return training_->report();
    }();
    return with_plan(as_dict(report));
  }
  std::int64_t first_samples() const { return training_->first_samples(); }
  std::int64_t take_skipped() { return training_->take_skipped(); }
  std::optional<py::dict> take_decided() {
    const std::optional<StepReport> report = training_->take_decided();
    return report ? std::optional(with_plan(as_dict(*report))) : std::nullopt;
  }

  /// name -> (element type, shape, bytes)
  py::dict state() {
    const std::vector<StateView> views = [&] {
      const py::gil_scoped_release release;
      return training_->state();
    }();
    py::dict all;
    for (const StateView& view : views)
      all[py::str(view.name)] = py::make_tuple(
          static_cast<int>(view.type), view.shape,
          py::bytes(reinterpret_cast<const char*>(view.bytes.data()), view.bytes.size()));
    return all;
  }
  void restore(const py::dict& saved) {
    StateMap map;
    std::vector<std::string> kept;  // the bytes of the views
    kept.reserve(saved.size());
    for (const auto& [name, value] : saved) {
      const auto entry = py::cast<py::tuple>(value);
      kept.push_back(py::cast<std::string>(entry[2]));
      StateView view{.name = py::cast<std::string>(name),
                     .type = static_cast<ElementType>(py::cast<int>(entry[0])),
                     .shape = py::cast<std::vector<std::int64_t>>(entry[1]),
                     .bytes = std::as_bytes(std::span(kept.back()))};
      map.emplace(view.name, view);
    }
    const py::gil_scoped_release release;
    training_->restore(map);
  }

  void profile(std::int64_t samples, const py::function& closure) {
    const py::gil_scoped_release release;
    training_->profile(samples, closure_from(closure));
  }
  void finish_own_step(std::int64_t samples, const at::Tensor& mean_loss) {
    const py::gil_scoped_release release;
    training_->finish_own_step(samples, mean_loss);
  }
  void enter_activations() { training_->enter_activations(); }
  void leave_activations() { training_->leave_activations(); }
  void enter_precision() { training_->enter_precision(); }
  void leave_precision() { training_->leave_precision(); }

 private:
  /// Adds what the next step does, in short.
  py::dict with_plan(py::dict report) const {
    std::map<std::string, std::int64_t> layers;
    for (const LayerPlan& layer : training_->plan().layers)
      ++layers[std::string(name_of(layer.compute))];
    report["pass_size"] = training_->plan().micro_batch_size;
    report["layers"] = layers;
    return report;
  }

  std::unique_ptr<AttachedTraining> training_;
};

/// A model under zeroth-order training as Python sees it.
class ZerothOrderSession {
 public:
  ZerothOrderSession(const std::vector<Parameter>& parameters, std::vector<at::Tensor> buffers,
                     std::int64_t layers, std::int64_t backprop_layers, double epsilon,
                     std::int64_t directions, double momentum, double weight_decay,
                     std::int64_t micro_batch_size, std::uint64_t seed)
      : training_(network_from(parameters, std::move(buffers), layers),
                  {.estimates = {.epsilon = epsilon, .directions = directions, .seed = seed},
                   .optimizer = {.momentum = momentum, .weight_decay = weight_decay},
                   .backprop_layers = backprop_layers,
                   .micro_batch_size = micro_batch_size},
                  std::get<1>(parameters.front()).device()) {}

  at::Tensor step(std::int64_t samples, const py::function& closure, double learning_rate,
                  double zeroth_order_rate) {
    const py::gil_scoped_release release;
    return training_.step(samples, closure_from(closure), learning_rate, zeroth_order_rate);
  }

 private:
  ZerothOrderTraining training_;
};

}  // namespace

void bind_session(py::module_& module) {
  py::class_<Session>(module, "Session")
      .def(py::init<const std::vector<Parameter>&, std::vector<at::Tensor>, std::vector<at::Tensor>,
                    const std::vector<Session::PythonLayer>&, const std::string&,
                    const std::string&, const std::string&, std::int64_t, std::int64_t,
                    const std::string&, std::int64_t, double, const std::string&, std::int64_t,
                    double, bool, bool, bool, std::shared_ptr<GroupOptimizer>, std::int64_t>(),
           py::arg("parameters"), py::arg("others"), py::arg("buffers"), py::arg("layers"),
           py::arg("budget"), py::arg("precision"), py::arg("policy"), py::arg("control_interval"),
           py::arg("smallest_pass"), py::arg("activations"), py::arg("planned_pass"),
           py::arg("activation_ratio"), py::arg("curvature"), py::arg("curvature_every"),
           py::arg("momentum"), py::arg("traced"), py::arg("elastic"), py::arg("reports"),
           py::arg("optimizer") = nullptr, py::arg("applied_steps") = 0)
      .def("backward", &Session::backward)
      .def("step", &Session::step)
      .def("memory_plans", &Session::memory_plans)
      .def("best_plan", &Session::best_plan)
      .def("finish_step", &Session::finish_step)
      .def("take_back", &Session::take_back)
      .def("undo", &Session::undo)
      .def("hold_precision", &Session::hold_precision)
      .def("take_notices", &Session::take_notices)
      .def("take_events", &Session::take_events)
      .def("plan", &Session::plan)
      .def("report", &Session::report)
      .def("take_decided", &Session::take_decided)
      .def("take_skipped", &Session::take_skipped)
      .def("first_samples", &Session::first_samples)
      .def("state", &Session::state)
      .def("restore", &Session::restore)
      .def("profile", &Session::profile)
      .def("finish_own_step", &Session::finish_own_step)
      .def("enter_activations", &Session::enter_activations)
      .def("leave_activations", &Session::leave_activations)
      .def("enter_precision", &Session::enter_precision)
      .def("leave_precision", &Session::leave_precision);
  py::class_<ZerothOrderSession>(module, "ZerothOrderSession")
      .def(py::init<const std::vector<Parameter>&, std::vector<at::Tensor>, std::int64_t,
                    std::int64_t, double, std::int64_t, double, double, std::int64_t,
                    std::uint64_t>(),
           py::arg("parameters"), py::arg("buffers"), py::arg("layers"), py::arg("backprop_layers"),
           py::arg("epsilon"), py::arg("directions"), py::arg("momentum"), py::arg("weight_decay"),
           py::arg("micro_batch_size"), py::arg("seed"))
      .def("step", &ZerothOrderSession::step);
  module.def(
      "cpu_memory_peak", [] { return read_cpu_memory().peak; },
      "Most bytes of live CPU tensors since the last reset.");
  module.def("reset_cpu_memory_peak", &reset_cpu_memory_peak);
  module.def("fail_cpu_allocation", &fail_cpu_allocation, py::arg("allocations_from_now"),
             py::arg("persistently") = false, "For tests: makes an allocation fail.");
}

}  // namespace triaccel::python
