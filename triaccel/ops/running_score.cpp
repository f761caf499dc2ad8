#include "triaccel/ops/running_score.h"

#include <ATen/ATen.h>

#include <cstring>

#include "triaccel/base/error.h"
#include "triaccel/ops/dispatch.h"
#include "triaccel/ops/tensor_check.h"

namespace triaccel {
namespace {

constexpr std::int64_t kScoreBytes = sizeof(RunningScore);

}  // namespace

at::Tensor make_running_score(at::Device device) {
  return at::zeros({kScoreBytes}, at::TensorOptions().dtype(at::kByte).device(device));
}

void add_score(const at::Tensor& score, const at::Tensor& loss, const at::Tensor& logits,
               const at::Tensor& labels, std::int64_t samples) {
  constexpr std::string_view who = "add_score";
  require(score.defined() && logits.defined(), who, "score or logits is an undefined tensor");
  const at::Device device = score.device();
  check_contiguous(who, "score", score, device, at::kByte, {kScoreBytes});
  check_tensor(who, "loss", loss, device, at::kFloat);
  require(loss.numel() == 1, who, "loss must be one number, got shape ", loss.sizes());
  const kernels::FloatType type = float_type_of(who, "logits", logits.scalar_type());
  check_contiguous(who, "logits", logits, device, logits.scalar_type(), {-1, -1});
  check_contiguous(who, "labels", labels, device, at::kLong, {logits.size(0)});
  require(samples >= 0, who, "samples must not be negative, got ", samples);

  const kernels::ScoredBatch batch = {.loss = loss.const_data_ptr<float>(),
                                      .logits = logits.const_data_ptr(),
                                      .logits_type = type,
                                      .labels = labels.const_data_ptr<std::int64_t>(),
                                      .rows = logits.size(0),
                                      .classes = logits.size(1),
                                      .samples = samples};
  auto* running = reinterpret_cast<RunningScore*>(score.mutable_data_ptr<std::uint8_t>());
  dispatch(
      who, device, [&] { kernels::cpu::add_score(running, batch); },
      [&](cudaStream_t stream) { kernels::cuda::add_score(running, batch, stream); });
}

RunningScore read_score(const at::Tensor& score) {
  check_contiguous("read_score", "score", score, score.device(), at::kByte, {kScoreBytes});
  const at::Tensor host = score.cpu();
  RunningScore read;
  std::memcpy(&read, host.const_data_ptr(), sizeof read);
  return read;
}

}  // namespace triaccel
