#include "triaccel/signals/curvature_probe.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "triaccel/base/clock.h"
#include "triaccel/base/error.h"
#include "triaccel/device/cpu_memory.h"
#include "triaccel/device/cuda_memory.h"
#include "triaccel/device/device_choice.h"
#include "triaccel/device/out_of_memory.h"
#include "triaccel/ops/tensors/tensor_state.h"
#include "triaccel/signals/fisher_gram.h"

namespace triaccel {
namespace {

constexpr std::int64_t kSmallestBatch = 4;
constexpr const char* kBasesState = "curvature.layers";

std::string basis_name(std::int64_t layer) { return text("curvature.basis.", layer); }

bool negative_dominates(const LayerCurvature& layer) {
  return !layer.eigenvalues.empty() &&
         std::abs(layer.eigenvalues.back()) > std::abs(layer.eigenvalues.front()) &&
         layer.eigenvalues.back() < 0;
}

}  // namespace

CurvatureProbe::CurvatureProbe(ProbeNetwork network, const CurvatureOptions& options,
                               c10::Device device)
    : network_(std::move(network)), options_(options), device_(device) {
  const auto positive = [](std::string_view name, std::int64_t value) {
    require(value > 0, "--curvature", name, " must be positive, got ", value);
  };
  positive("top", options.top);
  positive("batch", options.batch);
  positive("workspace_bytes", options.workspace_bytes);
  positive("most_iterations", options.most_iterations);
  require(!network_.weights.empty(), "--curvature", "the model has no layers");
  for (const at::Tensor& weight : network_.weights)
    require(weight.defined() && weight.scalar_type() == at::kFloat, "--curvature",
            "a layer's weight must be FP32");
}

CurvatureReport CurvatureProbe::run(const at::Tensor& inputs, const at::Tensor& targets,
                                    double label_smoothing, std::int64_t step) {
  require(inputs.dim() > 0 && inputs.size(0) > 0 && inputs.size(0) == targets.size(0),
          "CurvatureProbe::run", "inputs ", inputs.sizes(), " and targets ", targets.sizes(),
          " must have the samples in the first dimension, and at least one");
  const auto first = [&](std::int64_t samples) {
    return ProbeBatch{.inputs = inputs.narrow(0, 0, samples),
                      .targets = targets.narrow(0, 0, samples),
                      .label_smoothing = label_smoothing};
  };
  return run_on(inputs.size(0), first, step);
}

CurvatureReport CurvatureProbe::run(std::int64_t samples,
                                    const std::function<at::Tensor(std::int64_t samples)>& loss,
                                    std::int64_t step) {
  const auto first = [&](std::int64_t count) {
    return ProbeBatch{.own_loss = [&loss, count] { return loss(count); }, .own_samples = count};
  };
  return run_on(samples, first, step);
}

CurvatureReport CurvatureProbe::run_on(std::int64_t available,
                                       const std::function<ProbeBatch(std::int64_t samples)>& batch,
                                       std::int64_t step) {
  synchronize(device_);  // exclude earlier work from the probe's time
  const Stopwatch watch;
  const MemoryPurposeScope purpose(MemoryPurpose::Workspace);
  std::int64_t samples = std::min(options_.batch, available);
  const std::int64_t fewest = std::min(samples, kSmallestBatch);
  CurvatureReport report;
  CurvatureOptions options = options_;
  const std::int64_t least_top = options.mode == CurvatureMode::Hessian ? 1 : options.top;
  for (;;) {
    try {
      report = catching_out_of_memory([&] { return measure(batch(samples), options); });
      break;
    } catch (const OutOfMemory& error) {
      report.skipped = text("out of memory with ", samples, " samples: ", error.what());
    }
    bases_.clear();
    if (device_.is_cuda()) release_cuda_cache();
    if (samples == fewest && options.top == least_top) break;
    // A vector of every weight of a layer may take more than a few samples.
    if (samples > fewest)
      samples = std::max(fewest, samples / 2);
    else
      options.top = least_top;
  }
  report.mode = options_.mode;
  report.step = step;
  report.batch = samples;
  report.seconds = watch.seconds();
  return report;
}

CurvatureReport CurvatureProbe::measure(const ProbeBatch& batch, const CurvatureOptions& options) {
  const UntouchedState state(network_.buffers, device_);
  CurvatureReport report;
  switch (options.mode) {
    case CurvatureMode::Hessian: {
      HessianCurvature found = hessian_curvature(network_, batch, options, bases_);
      report.layers = std::move(found.layers);
      iterations_ = found.iterations;
      break;
    }
    case CurvatureMode::FisherGram:
      report.layers = fisher_curvature(network_, batch, options);
      break;
  }
  drew_ |= state.drew();
  report.negative = std::count_if(report.layers.begin(), report.layers.end(), &negative_dominates);
  return report;
}

std::vector<StateView> CurvatureProbe::state() const {
  std::vector<StateView> all;
  std::vector<std::int64_t> layers;
  for (std::size_t i = 0; i < bases_.size(); ++i) {
    if (!bases_[i].defined()) continue;
    layers.push_back(static_cast<std::int64_t>(i));
    all.push_back(tensor_state(basis_name(layers.back()), bases_[i]));
  }
  all.push_back(number_state(kBasesState, layers));
  return all;
}

void CurvatureProbe::restore(const StateMap& saved) {
  SubspaceBases bases(network_.weights.size());
  for (const std::int64_t layer : numbers_from<std::int64_t>(saved, kBasesState)) {
    const std::string name = basis_name(layer);
    const auto found = saved.find(name);
    const auto index = static_cast<std::size_t>(layer);
    if (found == saved.end() || index >= bases.size() || found->second.shape.size() != 2)
      throw StorageError(
          text("the checkpoint's state '", name, "' is missing or belongs to another run"));
    bases[index] = at::empty(found->second.shape, at::kFloat);
    check_restorable(bases[index], saved, name);
    restore_tensor(bases[index], saved, name);
  }
  bases_ = std::move(bases);
}

}  // namespace triaccel
