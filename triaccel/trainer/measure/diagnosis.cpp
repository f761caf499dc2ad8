#include "triaccel/trainer/measure/diagnosis.h"

#include <torch/torch.h>

#include <algorithm>

#include "triaccel/base/error.h"
#include "triaccel/device/cpu_memory.h"
#include "triaccel/device/out_of_memory.h"
#include "triaccel/trainer/evaluate/evaluator.h"

namespace triaccel {
namespace {

constexpr std::size_t kMostNamed = 8;

/// Needs no memory to speak of: extremes pass on what is no number, and times zero tell it.
bool all_finite(const at::Tensor& tensor) {
  if (!tensor.is_floating_point() || tensor.numel() == 0) return true;
  // The order of elements does not matter, only that they lie together: no copy is made then.
  const at::Tensor flat = tensor.is_non_overlapping_and_dense()
                              ? tensor.as_strided({tensor.numel()}, {1})
                              : tensor.reshape({-1});
  const auto [least, most] = at::aminmax(flat);
  return (least * 0 + most * 0).item<double>() == 0;
}

/// For each sample whether its input is finite.
at::Tensor sound_inputs(const Batch& batch) {
  const std::int64_t count = batch.inputs.size(0);
  if (!batch.inputs.is_floating_point())
    return at::ones({count}, batch.inputs.options().dtype(at::kBool));
  return at::isfinite(batch.inputs).reshape({count, -1}).all(1);
}

/// For each sample whether its loss is finite. In evaluation mode, since batch statistics would
/// spread one sample's fault over all.
at::Tensor finite_losses(const Network& network, const Batch& batch, const ForwardRules& rules) {
  const std::int64_t count = batch.inputs.size(0);
  const at::Tensor logits = forward_pass(network.forward, batch.inputs, rules).to(at::kFloat);
  const at::Tensor losses = at::cross_entropy_loss(
      logits.reshape({-1, logits.size(-1)}), batch.targets.reshape({-1}), {}, at::Reduction::None);
  return at::isfinite(losses).reshape({count, -1}).all(1);
}

/// Adds those among `ids` that give no finite loss.
void find_bad_samples(const Network& network, const Dataset& data, const at::Tensor& ids,
                      const ForwardRules& rules, Diagnosis& found) {
  const Batch batch = gather_unprepared(data, ids);
  const at::Tensor sound = sound_inputs(batch);
  const at::Tensor fine = sound.logical_and(finite_losses(network, batch, rules));
  const at::Tensor bad = ids.masked_select(fine.logical_not()).cpu();
  found.samples.insert(found.samples.end(), bad.const_data_ptr<std::int64_t>(),
                       bad.const_data_ptr<std::int64_t>() + bad.numel());
  found.looked_at += ids.numel();
  found.bad_inputs += ids.numel() - sound.sum().item<std::int64_t>();
}

template <typename Values>
std::string listed(const Values& values) {
  std::string all;
  for (std::size_t i = 0; i < std::min(values.size(), kMostNamed); ++i)
    all += text(i == 0 ? "" : ", ", values[i]);
  if (values.size() > kMostNamed) all += text(" and ", values.size() - kMostNamed, " more");
  return all;
}

}  // namespace

std::string Diagnosis::text() const {
  if (!tensors.empty()) return "the weights themselves are not finite: " + listed(tensors);
  if (weights_astray())
    return triaccel::text("none of ", looked_at,
                          " samples gives a finite loss: the weights have diverged");
  if (!samples.empty()) return "training samples " + listed(samples) + " give no finite loss";
  return "weights and data are finite: the gradients overflowed";
}

std::vector<std::string> nonfinite_tensors(const Network& network) {
  const at::NoGradGuard no_grad;
  std::vector<std::string> names;
  catching_out_of_memory([&] {
    for (const auto& item : network.module->named_parameters())
      if (!all_finite(item.value())) names.push_back(item.key());
    for (const auto& item : network.module->named_buffers())
      if (!all_finite(item.value())) names.push_back(item.key());
  });
  return names;
}

Diagnosis diagnose(const Network& network, const Dataset& data, std::span<const at::Tensor> ids,
                   const ForwardRules& rules, std::int64_t batch) {
  const at::NoGradGuard no_grad;
  const MemoryPurposeScope purpose(MemoryPurpose::Activations);
  Diagnosis found{.tensors = nonfinite_tensors(network)};
  if (!found.tensors.empty()) return found;
  const EvaluationMode mode(*network.module);
  for (const at::Tensor& step : ids) {
    for (std::int64_t first = 0; first < step.numel();) {
      const std::int64_t count = std::min(batch, step.numel() - first);
      try {
        catching_out_of_memory(
            [&] { find_bad_samples(network, data, step.narrow(0, first, count), rules, found); });
        first += count;
      } catch (const OutOfMemory&) {
        if (batch == 1) return found;
        batch = (batch + 1) / 2;
      }
    }
  }
  return found;
}

}  // namespace triaccel
