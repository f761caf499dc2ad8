#include "triaccel/kernels/running_score.h"

#include "tests/kernels/cuda_fixture.h"

namespace triaccel::kernels {
namespace {

class ScoreOnCuda : public CudaTest {
 protected:
  static ScoredBatch batch_of(const at::Tensor& loss, const at::Tensor& logits,
                              const at::Tensor& labels, FloatType type) {
    return {.loss = loss.data_ptr<float>(),
            .logits = logits.data_ptr(),
            .logits_type = type,
            .labels = labels.data_ptr<std::int64_t>(),
            .rows = logits.size(0),
            .classes = logits.size(1),
            .samples = logits.size(0)};
  }
};

TEST_F(ScoreOnCuda, MatchesTheCpuInEveryTypeAndSize) {
  RunningScore host;
  const at::Tensor device = on_device(host, device_);
  const std::pair<at::ScalarType, FloatType> types[] = {
      {at::kFloat, FloatType::F32}, {at::kBFloat16, FloatType::Bf16}, {at::kHalf, FloatType::F16}};
  for (const auto& [torch_type, type] : types)
    for (const std::int64_t rows : {0, 1, 9, 1021, 20000})
      for (const std::int64_t classes : {1, 10, 33, 1000}) {
        if (rows * classes > 2000000) continue;
        // A coarse grid, so that ties are common.
        const at::Tensor logits = at::randint(-4, 5, {rows, classes}).to(torch_type);
        const at::Tensor labels = at::randint(-1, classes, {rows}, at::kLong);
        const at::Tensor loss = at::rand({1});
        cpu::add_score(&host, batch_of(loss, logits, labels, type));
        const at::Tensor l = loss.to(device_), x = logits.to(device_), y = labels.to(device_);
        cuda::add_score(pointer<RunningScore>(device), batch_of(l, x, y, type), stream());
        const auto found = from_device<RunningScore>(device);
        ASSERT_EQ(found.correct, host.correct) << rows << " x " << classes;
        ASSERT_EQ(found.predictions, host.predictions);
        ASSERT_EQ(found.samples, host.samples);
        ASSERT_DOUBLE_EQ(found.loss_sum, host.loss_sum);
      }
}

}  // namespace
}  // namespace triaccel::kernels
