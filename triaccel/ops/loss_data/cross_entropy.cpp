#include "triaccel/ops/loss_data/cross_entropy.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cstring>
#include <limits>
#include <string_view>

#include "triaccel/base/error.h"
#include "triaccel/kernels/loss_data/cross_entropy.h"
#include "triaccel/ops/tensors/dispatch.h"
#include "triaccel/ops/tensors/tensor_check.h"

namespace triaccel {
namespace {

constexpr std::int64_t kScoreBytes = sizeof(RunningScore);

kernels::ClassifiedBatch checked_batch(std::string_view who, const at::Tensor& score,
                                       const at::Tensor& logits, const at::Tensor& labels,
                                       std::int64_t samples) {
  require(score.defined() && logits.defined(), who, "score or logits is an undefined tensor");
  const at::Device device = score.device();
  check_contiguous(who, "score", score, device, at::kByte, {kScoreBytes});
  const kernels::FloatType type = float_type_of(who, "logits", logits.scalar_type());
  check_contiguous(who, "logits", logits, device, logits.scalar_type(), {-1, -1});
  require(logits.size(1) > 0 && logits.size(1) <= std::numeric_limits<std::int32_t>::max(), who,
          "logits must have 1 to 2^31 - 1 classes, got ", logits.size(1));
  check_contiguous(who, "labels", labels, device, at::kLong, {logits.size(0)});
  require(samples >= 0, who, "samples must not be negative, got ", samples);
  return {.logits = logits.const_data_ptr(),
          .type = type,
          .labels = labels.const_data_ptr<std::int64_t>(),
          .rows = logits.size(0),
          .classes = logits.size(1),
          .samples = samples};
}

void enqueue(std::string_view who, const at::Tensor& score, const kernels::ClassifiedBatch& batch,
             const at::Tensor& wanted) {
  const std::int64_t bytes = kernels::cross_entropy_parts(batch.rows, batch.classes) *
                             std::int64_t{sizeof(kernels::PartialScore)};
  if (wanted.defined()) check_contiguous(who, "parts", wanted, score.device(), at::kByte, {bytes});
  const at::Tensor scratch = wanted.defined() ? wanted : at::empty({bytes}, score.options());
  auto* parts = reinterpret_cast<kernels::PartialScore*>(scratch.mutable_data_ptr<std::uint8_t>());
  auto* running = reinterpret_cast<RunningScore*>(score.mutable_data_ptr<std::uint8_t>());
  dispatch<kernels::cpu::cross_entropy, kernels::cuda::cross_entropy>(who, score.device(), running,
                                                                      batch, parts);
}

}  // namespace

at::Tensor make_running_score(at::Device device) {
  return at::zeros({kScoreBytes}, at::TensorOptions().dtype(at::kByte).device(device));
}

RunningScore read_score(const at::Tensor& score) {
  check_contiguous("read_score", "score", score, score.device(), at::kByte, {kScoreBytes});
  const at::Tensor host = score.cpu();
  RunningScore read;
  std::memcpy(&read, host.const_data_ptr(), sizeof read);
  return read;
}

at::Tensor cross_entropy_gradient(const at::Tensor& score, const at::Tensor& logits,
                                  const at::Tensor& labels, std::int64_t samples,
                                  double label_smoothing, double weight,
                                  const at::Tensor& loss_scale, const at::Tensor& parts) {
  constexpr std::string_view who = "cross_entropy_gradient";
  kernels::ClassifiedBatch batch = checked_batch(who, score, logits, labels, samples);
  require(label_smoothing >= 0 && label_smoothing <= 1, who,
          "label_smoothing must be in [0, 1], got ", label_smoothing);
  batch.label_smoothing = static_cast<float>(label_smoothing);
  batch.weight = static_cast<float>(weight);
  if (loss_scale.defined()) {
    check_tensor(who, "loss_scale", loss_scale, score.device(), at::kFloat);
    require(loss_scale.numel() == 1, who, "loss_scale must be one number, got shape ",
            loss_scale.sizes());
    batch.loss_scale = loss_scale.const_data_ptr<float>();
  }
  const at::NoGradGuard no_gradient;
  at::Tensor gradient = at::empty_like(logits, logits.options().requires_grad(false));
  batch.gradient = gradient.mutable_data_ptr();
  enqueue(who, score, batch, parts);
  return gradient;
}

void add_cross_entropy(const at::Tensor& score, const at::Tensor& logits, const at::Tensor& labels,
                       std::int64_t samples, double label_smoothing, const at::Tensor& parts) {
  constexpr std::string_view who = "add_cross_entropy";
  kernels::ClassifiedBatch batch = checked_batch(who, score, logits, labels, samples);
  batch.label_smoothing = static_cast<float>(label_smoothing);
  const at::NoGradGuard no_gradient;
  enqueue(who, score, batch, parts);
}

void add_measured_loss(const at::Tensor& score, const at::Tensor& loss, std::int64_t samples,
                       const at::Tensor& parts) {
  constexpr std::string_view who = "add_measured_loss";
  check_contiguous(who, "score", score, score.device(), at::kByte, {kScoreBytes});
  check_contiguous(who, "loss", loss, score.device(), at::kFloat, {});
  kernels::MeasuredLoss measured{.mean = loss.const_data_ptr<float>(), .samples = samples};
  kernels::PartialScore* kept = nullptr;
  if (parts.defined()) {
    measured.parts = kernels::cross_entropy_parts(samples, 1);
    check_contiguous(who, "parts", parts, score.device(), at::kByte,
                     {measured.parts * std::int64_t{sizeof(kernels::PartialScore)}});
    kept = reinterpret_cast<kernels::PartialScore*>(parts.mutable_data_ptr<std::uint8_t>());
  }
  dispatch<kernels::cpu::measured_loss, kernels::cuda::measured_loss>(
      who, score.device(), reinterpret_cast<RunningScore*>(score.mutable_data_ptr<std::uint8_t>()),
      measured, kept);
}

}  // namespace triaccel
