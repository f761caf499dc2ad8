#include "tests/kernels/common/cuda_fixture.h"
#include "tests/kernels/zeroth_order/zo_cases.h"
#include "triaccel/kernels/zeroth_order/zo_estimate.h"
#include "triaccel/kernels/zeroth_order/zo_noise.h"

namespace triaccel::kernels {
namespace {

class ZoNoiseCuda : public CudaTest {
 protected:
  at::Tensor bytes_of(const void* from, std::size_t count) const {
    const at::Tensor host = at::empty({static_cast<std::int64_t>(count)}, at::kByte);
    std::memcpy(host.data_ptr(), from, count);
    return host.to(device_);
  }
};

TEST_F(ZoNoiseCuda, MovesWeightsToTheSameBitsAsTheCpu) {
  ZoCase c;
  const TensorBunch there = c.bunch.on(device_);
  const at::Tensor records = bytes_of(c.tensors.data(), c.tensors.size() * sizeof(ZoTensor));
  const at::Tensor board = on_device(c.board, device_);
  const at::Tensor history = at::tensor(c.history).to(device_);
  const at::Tensor rates = at::tensor(c.rates).to(device_);
  const auto here_entries = ZoCase::entries(c.bunch, c.tensors.data());
  const auto there_entries = ZoCase::entries(there, pointer<ZoTensor>(records));
  ZoMove here{.board = &c.board,
              .history = c.history.data(),
              .learning_rates = c.rates.data(),
              .directions = 2,
              .memory = 3,
              .momentum = 0.5f};
  ZoMove move = here;
  move.board = pointer<ZoBoard>(board);
  move.history = history.data_ptr<float>();
  move.learning_rates = rates.data_ptr<float>();
  for (const ZoShift shift : {ZoShift{0, 1}, ZoShift{0, -2}, ZoShift{1, 1}, ZoShift{}}) {
    here.shift = move.shift = shift;
    cpu::zo_move(here_entries, here);
    cuda::zo_move(there_entries, move, stream());
    EXPECT_TRUE(same_bits(c.bunch.parameters, there.parameters)) << shift.multiple;
  }
}

TEST_F(ZoNoiseCuda, EstimatesAsTheCpuDoes) {
  constexpr std::int64_t parts = 77;
  const std::vector<double> means = {1, 2, 4, 3.5, 2, 2.25};
  std::vector<PartialScore> losses;
  for (const double mean : means)
    for (std::int64_t i = 0; i < parts; ++i) losses.push_back({.loss = mean});
  const at::Tensor there = bytes_of(losses.data(), losses.size() * sizeof(PartialScore));
  const at::Tensor board = on_device(ZoBoard{.step = 3, .epsilon = 0.25f}, device_);
  const at::Tensor history = at::zeros({2, 3}, device_), log = at::zeros({8, 3}, device_);
  const at::Tensor moments = on_device(LayerMoments{}, device_);
  const at::Tensor control = on_device(StepControl{}, device_);
  const ZoEstimate estimate{.board = pointer<ZoBoard>(board),
                            .rule = {.directions = 3, .memory = 2},
                            .losses = {pointer<PartialScore>(there), parts, parts},
                            .history = history.data_ptr<float>(),
                            .log = log.data_ptr<float>(),
                            .log_steps = 8,
                            .moments = pointer<LayerMoments>(moments),
                            .norm = true};
  cuda::zo_estimate(estimate, stream());
  cuda::zo_close(estimate, pointer<StepControl>(control), stream());
  EXPECT_TRUE(at::equal(history[1].cpu(), at::tensor({2.0f, -1.0f, 0.5f})));
  EXPECT_TRUE(at::equal(log[3].cpu(), at::tensor({2.0f, -1.0f, 0.5f})));
  EXPECT_EQ(from_device<ZoBoard>(board).step, 4);
  EXPECT_DOUBLE_EQ(from_device<LayerMoments>(moments).sum_of_squares, 5.25 / 3);
}

}  // namespace
}  // namespace triaccel::kernels
