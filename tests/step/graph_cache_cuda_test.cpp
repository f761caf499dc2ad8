#include "triaccel/step/graph_cache.h"

#include <ATen/ATen.h>

#include <optional>
#include <vector>

#include "tests/kernels/common/cuda_fixture.h"
#include "triaccel/base/error.h"
#include "triaccel/device/cuda_memory.h"
#include "triaccel/device/memory_gauge.h"
#include "triaccel/device/side_stream.h"
#include "triaccel/ops/loss_data/step_inputs.h"

namespace triaccel {
namespace {

/// Work that adds 1 to a number of its own, and needs memory for it.
class GraphCacheOnCuda : public kernels::CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (IsSkipped()) return;
    allow_expandable_segments();  // as every run does
    stream_.emplace(device_);
    side_.emplace();
    sums_ = at::zeros({3}, at::TensorOptions(at::kFloat).device(device_));
  }

  void run(GraphCache& cache, std::int64_t number, std::int64_t elements = 1024) {
    const auto work = [&, number, elements](Enqueued enqueued) {
      const at::Tensor ones = at::ones({elements}, sums_.options());
      if (enqueued != Enqueued::Rehearsed) sums_.narrow(0, number, 1).add_(ones.narrow(0, 0, 1));
    };
    cache.run(static_cast<std::uint64_t>(number), /*samples=*/1, work);
  }

  std::vector<float> sums() const {
    const at::Tensor host = sums_.cpu();
    return {host.data_ptr<float>(), host.data_ptr<float>() + host.numel()};
  }

  std::optional<WorkStream> stream_;
  std::optional<SideStreams> side_;
  at::Tensor sums_;
};

TEST_F(GraphCacheOnCuda, ForgetsWhatWasNotUsedForLongest) {
  GraphCache cache({.capacity = 2}, *side_);
  for (const std::int64_t number : {0, 1, 0, 2, 0}) run(cache, number);  // 2 takes the place of 1
  EXPECT_EQ(cache.counts().captures, 3);
  run(cache, 1);
  EXPECT_EQ(cache.counts().captures, 4);
  EXPECT_EQ(cache.counts().replays, 6);
  EXPECT_EQ(sums(), (std::vector<float>{3, 2, 1}));
}

/// Each piece of work has a kernel of its own that is given the arguments.
TEST_F(GraphCacheOnCuda, GivesEachReplayItsArgumentsWhicheverWorkItIs) {
  GraphCache cache({}, *side_);
  const at::Tensor all = at::arange(100, at::TensorOptions(at::kLong).device(device_));
  StepInputs inputs(1, /*has_zeroth_order=*/false, device_);
  inputs.make_room(2);
  const at::Tensor seen = at::zeros({2}, all.options());
  const std::vector<LayerPlan> layers(1);
  const auto run_with = [&](std::uint64_t key, std::int64_t first) {
    inputs.set(layers, all.narrow(0, first, 2), /*learning_rate=*/1, /*zeroth_order_rate=*/0);
    const auto work = [&, factor = static_cast<std::int64_t>(key)](Enqueued enqueued) {
      inputs.place();
      const at::Tensor product = at::mul(inputs.ids(), factor);
      if (enqueued != Enqueued::Rehearsed) seen.copy_(product);
    };
    cache.run(key, /*samples=*/2, work, inputs.replay_arguments());
    const auto wanted = static_cast<std::int64_t>(key) * at::arange(first, first + 2);
    EXPECT_TRUE(at::equal(seen.cpu(), wanted)) << key << " from " << first;
  };
  for (const std::int64_t first : {3, 50, 7}) {
    run_with(2, first);
    run_with(5, first + 1);
  }
  cache.clear();
  run_with(2, 90);
  EXPECT_EQ(cache.counts().captures, 3);
  EXPECT_EQ(cache.counts().replays, 7);
}

TEST_F(GraphCacheOnCuda, SaysWhenCapturesDoNotPay) {
  GraphCache cache({.capacity = 2}, *side_);
  for (int i = 0; i < 210; ++i) run(cache, i % 3);  // three in turn, room for two
  EXPECT_EQ(cache.counts().captures, 210);
  EXPECT_TRUE(cache.thrashes());
  EXPECT_FALSE(cache.thrashes()) << "once";
  for (int i = 0; i < 210; ++i) run(cache, i % 2);
  EXPECT_FALSE(cache.thrashes());
}

TEST_F(GraphCacheOnCuda, GivesBackWhatOtherWorkTookBeforeItFirstCaptures) {
  GraphCache cache({}, *side_);
  const auto reserved_now = [] {
    reset_cuda_memory_peak();
    return read_cuda_memory().reserved;
  };
  cache.run_once([&] { (void)at::empty({64 << 20}, sums_.options()); });
  const std::int64_t before = reserved_now();
  run(cache, 0);
  EXPECT_LT(reserved_now(), before - (200 << 20));
  cache.run_once([&] { (void)at::empty({1024}, sums_.options()); });
  run(cache, 1);
  run(cache, 0);
  EXPECT_EQ(cache.counts().captures, 2) << "captured work stays where it is";
  EXPECT_EQ(sums(), (std::vector<float>{2, 1, 0}));
}

TEST_F(GraphCacheOnCuda, DropsAllItHasWhenMemoryRunsOutAndStartsAnew) {
  MemoryGauge gauge(device_);
  GraphCache cache({}, *side_);
  run(cache, 0);
  run(cache, 1);
  const std::shared_ptr<void> no_limit_after(nullptr, [&](void*) { gauge.set_limit(0); });
  gauge.set_limit(gauge.used() + (96 << 20));  // several pages
  EXPECT_THROW(run(cache, 2, /*elements=*/64 << 20), OutOfMemory);
  run(cache, 0);
  EXPECT_EQ(cache.counts().captures, 3);
  EXPECT_EQ(sums(), (std::vector<float>{2, 1, 0}));
}

}  // namespace
}  // namespace triaccel
