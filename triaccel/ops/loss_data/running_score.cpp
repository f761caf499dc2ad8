#include "triaccel/ops/loss_data/running_score.h"

#include <ATen/ATen.h>

#include <cstring>

#include "triaccel/ops/tensors/tensor_check.h"

namespace triaccel {
namespace {

constexpr std::int64_t kRunningScoreBytes = sizeof(RunningScore);

}  // namespace

at::Tensor make_running_score(at::Device device) {
  return at::zeros({kRunningScoreBytes}, at::TensorOptions().dtype(at::kByte).device(device));
}

RunningScore read_score(const at::Tensor& score) {
  check_contiguous("read_score", "score", score, score.device(), at::kByte, {kRunningScoreBytes});
  const at::Tensor host = score.cpu();
  RunningScore read;
  std::memcpy(&read, host.const_data_ptr(), sizeof read);
  return read;
}

}  // namespace triaccel
