#include <ATen/ATen.h>

#include <optional>
#include <vector>

#include "tests/kernels/common/cuda_fixture.h"
#include "triaccel/device/captured_work.h"
#include "triaccel/device/side_stream.h"
#include "triaccel/ops/loss_data/step_inputs.h"

namespace triaccel {
namespace {

class StepInputsOnCuda : public kernels::CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (IsSkipped()) return;
    stream_.emplace(device_);
    pool_.emplace();
    all_ = at::arange(1000, at::TensorOptions(at::kLong).device(device_));
    seen_ = at::zeros({300}, all_.options());
    rates_ = at::zeros({3}, all_.options().dtype(at::kFloat));
  }

  std::optional<WorkStream> stream_;
  std::optional<WorkPool> pool_;
  at::Tensor all_, seen_, rates_;
};

TEST_F(StepInputsOnCuda, ReachEachReplayAnew) {
  StepInputs inputs(3, /*has_zeroth_order=*/false, device_);
  inputs.make_room(300);
  std::vector<LayerPlan> layers(3);
  layers[2].learning_rate_scale = 8;
  inputs.set(layers, all_.narrow(0, 0, 300), 1, 0);
  CapturedWork work(*pool_, [&] {
    inputs.place();
    seen_.copy_(at::mul(inputs.ids(), 2));  // behind a kernel of somebody else's, too
    rates_.copy_(inputs.learning_rates());
  });
  for (const std::int64_t first : {1, 500, 7, 700}) {
    const auto rate = static_cast<double>(first) / 1024;
    inputs.set(layers, all_.narrow(0, first, 300), rate, 0);
    work.replay(inputs.replay_arguments());
    const at::Tensor wanted = 2 * at::arange(first, first + 300);
    EXPECT_TRUE(at::equal(seen_.cpu(), wanted)) << first;
    EXPECT_TRUE(at::equal(rates_.cpu(), static_cast<float>(rate) * at::tensor({1.0f, 1.0f, 8.0f})));
  }
}

/// Several replays are under way while the host goes on: each has its own numbers.
TEST_F(StepInputsOnCuda, OfOneReplayAreNotThoseOfTheNext) {
  StepInputs inputs(3, /*has_zeroth_order=*/false, device_);
  inputs.make_room(300);
  const std::vector<LayerPlan> layers(3);
  inputs.set(layers, all_.narrow(0, 0, 300), 1, 0);
  const at::Tensor total = at::zeros_like(seen_), busy = at::rand({2048, 2048}, rates_.options());
  at::mm(busy, busy);  // cuBLAS sets itself up, which it may not do during a capture
  CapturedWork work(*pool_, [&] {
    inputs.place();
    at::mm(busy, busy);  // the host is far ahead
    total.add_(inputs.ids());
  });
  for (std::int64_t first = 0; first < 200; ++first) {
    inputs.set(layers, all_.narrow(0, first, 300), 1, 0);
    work.replay(inputs.replay_arguments());
  }
  const at::Tensor wanted = 200 * at::arange(300) + 200 * 199 / 2;
  EXPECT_TRUE(at::equal(total.cpu(), wanted));
}

TEST_F(StepInputsOnCuda, AreOfNoUseWhereTheyWereNotCaptured) {
  StepInputs inputs(3, /*has_zeroth_order=*/false, device_);
  inputs.make_room(1);
  inputs.set(std::vector<LayerPlan>(3), all_.narrow(0, 0, 1), 1, 0);
  CapturedWork work(*pool_, [&] { seen_.add_(1); });
  EXPECT_ANY_THROW(work.replay(inputs.replay_arguments()));
  work.replay();
  EXPECT_EQ(seen_.sum().item<std::int64_t>(), 300);
}

}  // namespace
}  // namespace triaccel
