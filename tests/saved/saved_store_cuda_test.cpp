#include "triaccel/saved/saved_store.h"

#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/torch.h>

#include <algorithm>

#include "tests/kernels/common/cuda_fixture.h"
#include "tests/saved/saved_pass.h"
#include "triaccel/device/captured_work.h"

namespace triaccel {
namespace {

class SavedStoreOnCuda : public kernels::CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (IsSkipped()) return;
    at::globalContext().setDeterministicCuDNN(true);
    at::globalContext().setBenchmarkCuDNN(false);
    at::globalContext().setFloat32MatmulPrecision("highest");
    install_saved_tensor_engine();
  }

  SlimRun on_device(const std::string& name) const {
    SlimRun run(name);
    run.network.module->to(device_);
    run.input = run.input.to(device_);
    run.constants = constants_of(*run.network.module);
    return run;
  }
};

void follow(SavedStore& store, const SlimRun& run, const SavedPlan& values) {
  const SavedCensus census =
      census_of([&] { return run.forward(); }, run.constants, run.input.size(0));
  store.follow(census, planned(census, values));
}

bool all_equal(const std::vector<at::Tensor>& left, const std::vector<at::Tensor>& right) {
  return std::ranges::equal(
      left, right, [](const at::Tensor& a, const at::Tensor& b) { return torch::equal(a, b); });
}

// But for networks in which libtorch itself adds in another order from run to run: their gradients
// are as close as those of two of its own runs.
TEST_F(SavedStoreOnCuda, LeavesEveryBitOfEveryGradientWithoutLoss) {
  int to_the_last_bit = 0;
  for (const std::string& name : model_names()) {
    const SlimRun run = on_device(name);
    const std::vector<at::Tensor> wanted = run.gradients(run.forward());
    bool repeats = true;
    for (int pass = 0; pass < 4; ++pass) repeats &= all_equal(run.gradients(run.forward()), wanted);
    SavedStore store({}, run.constants, device_);
    follow(store, run, {});
    const at::Tensor logits = kept(store, [&] { return run.forward(); });
    EXPECT_EQ(store.counts().mismatches, 0) << name;
    const std::vector<at::Tensor> gradients = run.gradients(logits);
    if (repeats)
      EXPECT_TRUE(all_equal(gradients, wanted)) << name;
    else
      EXPECT_GT(cosine(gradients, wanted), 1 - 1e-6) << name;  // sums in FP32
    to_the_last_bit += repeats;
  }
  EXPECT_GE(to_the_last_bit, 3);
}

TEST_F(SavedStoreOnCuda, KeepsNothingOfWhatIsReadForItsSizesOnly) {
  const at::Tensor weight = torch::randn({8, 3, 3, 3}, device_).requires_grad_();
  for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast})
    for (const int pool : {0, 1, 2}) {
      const at::Tensor x = torch::randn({2, 3, 11, 13}, device_).contiguous(format);
      const Forward forward = [&] {
        const at::Tensor y = torch::relu(torch::conv2d(x, weight)).contiguous(format);
        if (pool == 0) return torch::max_pool2d(y, {3, 2}, {2, 2}, {1, 0}, {1, 2});
        if (pool == 1) return torch::avg_pool2d(y, 2);
        return torch::adaptive_avg_pool2d(y, {3, 2});
      };
      forward().square().sum().backward();
      const at::Tensor wanted = weight.grad().clone();
      weight.mutable_grad().reset();
      SavedStore store({}, {weight}, device_);
      const SavedCensus census = census_of(forward, {weight}, 2);
      store.follow(census, planned(census, {}));
      kept(store, forward).square().sum().backward();
      EXPECT_LT((weight.grad() - wanted).abs().max().item<double>(), 1e-4) << pool;
      weight.mutable_grad().reset();
    }
}

// What a captured pass writes in every replay is in nobody else's pages.
TEST_F(SavedStoreOnCuda, SharesNoPageBetweenACapturedPassAndAnEagerOne) {
  const c10::cuda::CUDAStreamGuard guard(c10::cuda::getStreamFromPool());
  const SlimRun run = on_device("resnet18");
  const SavedPlan plan{.codec = SavedCodec::Groups, .eighths = 24};
  const auto parameters = run.network.module->parameters();
  const Forward forward = [&] { return run.network.forward(run.input); };
  const auto gradients = [&](const at::Tensor& logits) {
    return torch::autograd::grad({logits.square().sum()}, parameters);
  };
  SavedStore store({.seed = 3}, run.constants, device_);
  SavedStore alone({.seed = 3}, run.constants, device_);
  follow(store, run, plan);
  follow(alone, run, plan);
  for (const at::Tensor& parameter : parameters)
    parameter.mutable_grad() = torch::zeros_like(parameter);
  const auto step = [&] {
    for (const at::Tensor& parameter : parameters) parameter.grad().zero_();
    kept(store, forward).square().sum().backward();
    store.end_pass();
  };
  step();
  const std::int64_t records = store.counts().allocations;
  step();
  EXPECT_LT(store.counts().allocations, records);
  WorkPool pool;
  CapturedWork work(pool, step);
  EXPECT_LT(store.counts().allocations, records);
  const at::Tensor eager = kept(store, forward);
  EXPECT_LT(store.counts().allocations, records);
  work.replay();
  const std::vector<at::Tensor> found = gradients(eager);
  for (int pass = 0; pass < 2; ++pass) kept(alone, [] { return at::Tensor(); });
  const std::vector<at::Tensor> wanted = gradients(kept(alone, forward));
  EXPECT_EQ(alone.counts().allocations, records);
  EXPECT_GT(cosine(found, wanted), 0.99999);
}

class CapturedPass : public SavedStoreOnCuda, public testing::WithParamInterface<SavedPlan> {};

TEST_P(CapturedPass, MovesOnWithEveryReplay) {
  const c10::cuda::CUDAStreamGuard guard(c10::cuda::getStreamFromPool());
  const SlimRun run = on_device("lenet5");
  SavedStore store({.seed = 3}, run.constants, device_);
  follow(store, run, GetParam());
  const auto parameters = run.network.module->parameters();
  for (const at::Tensor& parameter : parameters)
    parameter.mutable_grad() = torch::zeros_like(parameter);
  const auto step = [&] {
    for (const at::Tensor& parameter : parameters) parameter.grad().zero_();
    const at::Tensor logits = kept(store, [&] { return run.network.forward(run.input); });
    logits.square().sum().backward();
    store.end_pass();
  };
  step();
  WorkPool pool;
  CapturedWork work(pool, step);
  const std::int64_t before = store.passes().item<std::int64_t>();
  work.replay();
  const at::Tensor first = parameters[0].grad().clone();
  work.replay();
  EXPECT_EQ(store.passes().item<std::int64_t>(), before + 2);
  EXPECT_FALSE(torch::equal(parameters[0].grad(), first));
  EXPECT_TRUE(parameters[0].grad().isfinite().all().item<bool>());
  EXPECT_FALSE(store.needs_profile());
}

INSTANTIATE_TEST_SUITE_P(Codecs, CapturedPass,
                         testing::Values(SavedPlan{.codec = SavedCodec::Groups, .eighths = 16},
                                         SavedPlan{.codec = SavedCodec::Levelled, .eighths = 24},
                                         SavedPlan{.codec = SavedCodec::Frequency,
                                                   .block = 4,
                                                   .band_eighths = {56, 48, 40, 40, 40}}));

}  // namespace
}  // namespace triaccel
