#include "triaccel/step/step_batch.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <numeric>
#include <utility>

#include "triaccel/base/error.h"
#include "triaccel/base/random.h"
#include "triaccel/ops/loss_data/cross_entropy.h"

namespace triaccel {
namespace {

/// The share of a step's mean loss that a pass has.
double share_of(const PassRequest& request) {
  return static_cast<double>(request.count) / static_cast<double>(request.samples);
}

/// Adds a scalar loss of any floating type to the score of the step.
void add_to_score(const PassRequest& request, const at::Tensor& mean_loss) {
  const at::Tensor value = mean_loss.detach().to(at::kFloat).reshape({});
  add_measured_loss(request.score, value, request.count,
                    request.losses ? request.losses(request.count, 1) : at::Tensor());
}

/// d(share * loss scale * loss) / d loss.
at::Tensor seed_of(const at::Tensor& loss, double share, const at::Tensor& loss_scale) {
  at::Tensor seed = at::full_like(loss, share, loss.options().requires_grad(false));
  return loss_scale.defined() ? seed.mul_(loss_scale) : seed;
}

/// a / b, and `otherwise` where nothing was counted: all labels of a pass may be ones to ignore.
at::Tensor quotient(const at::Tensor& a, const at::Tensor& b, const at::Tensor& otherwise) {
  return at::where(b == 0, otherwise, a / b);
}

}  // namespace

std::optional<std::uint64_t> DatasetBatch::key() const {
  if (loss_.own) return {};  // a caller's code need not be the same every time
  const std::uint64_t data = mixed_hash(0, reinterpret_cast<std::uintptr_t>(&data_));
  return mixed_hash(mixed_hash(data, gather_.augment), gather_.seed);
}

PassResult DatasetBatch::pass(const PassRequest& request) {
  const Batch batch = data_.gather(request.ids, gather_);
  if (!loss_.own) return cross_entropy(request, batch);
  const at::Tensor loss =
      request.compute([&] { return loss_.own(forward_(batch.inputs), batch.targets); });
  require(loss.defined() && loss.numel() == 1, "loss", "must return one number, the mean over the ",
          "samples; got shape ", loss.defined() ? loss.sizes() : at::IntArrayRef());
  add_to_score(request, loss);
  if (!request.backward) return {};
  return {.output = loss, .gradient = seed_of(loss, share_of(request), request.loss_scale)};
}

PassResult DatasetBatch::cross_entropy(const PassRequest& request, const Batch& batch) const {
  at::Tensor logits = request.compute([&] { return forward_(batch.inputs); });
  logits = logits.reshape({-1, logits.size(-1)});
  const at::Tensor labels = batch.targets.reshape({-1}).contiguous();
  const at::Tensor losses =
      request.losses ? request.losses(logits.size(0), logits.size(1)) : at::Tensor();
  if (!request.backward) {
    add_cross_entropy(request.score, logits.contiguous(), labels, request.count,
                      loss_.label_smoothing, losses);
    return {};
  }
  // Micro-batches add up to the mean over the whole batch; the scale keeps FP16 gradients away
  // from zero and is taken out again by the update.
  const at::NoGradGuard no_grad;
  return {.output = logits,
          .gradient = cross_entropy_gradient(request.score, logits.detach().contiguous(), labels,
                                             request.count, loss_.label_smoothing,
                                             share_of(request), request.loss_scale, losses)};
}

ClosureBatch::ClosureBatch(std::vector<std::int64_t> parts, Closure closure, c10::Device device)
    : parts_(std::move(parts)),
      samples_(std::accumulate(parts_.begin(), parts_.end(), std::int64_t{0})),
      closure_(std::move(closure)),
      no_ids_(at::empty({0}, at::TensorOptions(at::kLong).device(device))) {}

PassResult ClosureBatch::pass(const PassRequest& request) {
  if (request.first == 0) {  // zeroth-order estimates run the passes several times
    loss_sum_.reset();
    counted_.reset();
    several_ = false;
  }
  at::Tensor count;
  const at::Tensor loss = request.compute([&] {
    ClosureLoss found = closure_(request.first, request.count);
    count = std::move(found.count);
    return std::move(found.loss);
  });
  const at::NoGradGuard no_grad;
  const at::Tensor value = loss.detach().to(at::kFloat).reshape({});
  if (!count.defined()) {
    add_to_score(request, value);
    const double share = share_of(request);
    const at::Tensor part = share == 1 ? value : value * share;
    loss_sum_ = loss_sum_.defined() ? loss_sum_ + part : part;
    if (!request.backward) return {};
    return {.output = loss, .gradient = seed_of(loss, share, request.loss_scale)};
  }
  const at::Tensor counted = count.detach().to(at::kFloat).reshape({});
  several_ = counted_.defined();
  loss_sum_ = several_ ? loss_sum_ + value : value;
  counted_ = several_ ? counted_ + counted : counted;
  const at::Tensor none = at::zeros_like(counted);
  const at::Tensor mean = quotient(value, counted, quotient(loss_sum_, counted_, none));
  add_measured_loss(request.score, mean, request.count, /*parts=*/{});
  if (!several_) {
    const at::Tensor first = at::where(counted == 0, at::ones_like(counted), counted);
    expected_ = request.count == request.samples ? first : first / share_of(request);
  }
  if (request.losses) {  // whose mean over the samples is the sum over what is expected
    if (!scratch_.defined()) scratch_ = make_running_score(counted.device());
    add_measured_loss(scratch_, value / (expected_ * share_of(request)), request.count,
                      request.losses(request.count, 1));
  }
  if (!request.backward) return {};
  at::Tensor seed = expected_.reciprocal().to(loss.scalar_type()).reshape(loss.sizes());
  if (request.loss_scale.defined()) seed = seed * request.loss_scale;
  return {.output = loss, .gradient = seed};
}

at::Tensor ClosureBatch::correction() {
  if (replayed_loss_.defined()) replayed_loss_.copy_(mean_loss());
  return several_ ? quotient(expected_, counted_, at::zeros_like(counted_)) : at::Tensor();
}

at::Tensor ClosureBatch::mean_loss() const {
  return counted_.defined() ? loss_sum_ / counted_ : loss_sum_;
}

}  // namespace triaccel
