#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/torch.h>

#include <vector>

#include "tests/kernels/common/cuda_fixture.h"
#include "tests/saved/saved_pass.h"
#include "triaccel/device/captured_work.h"
#include "triaccel/device/cuda_memory.h"

namespace triaccel {
namespace {

/// A chain of products and functions, whose gradients libtorch computes in the same order each
/// time. Its tensors have 4 MiB.
struct LongChain {
  explicit LongChain(c10::Device device) : x(torch::randn({1024, 1024}, device)) {
    for (int i = 0; i < 24; ++i)
      weights.push_back((torch::randn({1024, 1024}, device) / 32).requires_grad_());
  }

  at::Tensor forward() const {
    at::Tensor y = x;
    for (const at::Tensor& weight : weights) y = torch::tanh(y.mm(weight));
    return y.square().mean();
  }
  std::vector<at::Tensor> gradients(const at::Tensor& loss) const {
    return torch::autograd::grad({loss}, weights);
  }

  at::Tensor x;
  std::vector<at::Tensor> weights;
};

class HostOffloadOnCuda : public kernels::CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (IsSkipped()) return;
    at::globalContext().setFloat32MatmulPrecision("highest");
    install_saved_tensor_engine();
  }

  std::unique_ptr<SavedStore> store_of(const LongChain& chain) const {
    auto store = std::make_unique<SavedStore>(SavedStoreOptions{}, chain.weights, device_);
    const SavedCensus census = census_of([&] { return chain.forward(); }, chain.weights, 1024);
    const std::vector<SavedStatistics> tensors = tensors_of(census);
    store->follow(census, plans_by_entry(census, tensors, offload_plans(tensors)));
    return store;
  }

  static void expect_equal(const std::vector<at::Tensor>& found,
                           const std::vector<at::Tensor>& wanted) {
    ASSERT_EQ(found.size(), wanted.size());
    for (std::size_t i = 0; i < wanted.size(); ++i)
      EXPECT_TRUE(torch::equal(found[i], wanted[i])) << i;
  }
};

TEST_F(HostOffloadOnCuda, LeavesEveryBitAndFreesTheDevicesMemory) {
  const c10::cuda::CUDAStreamGuard guard(c10::cuda::getStreamFromPool());
  const LongChain chain(device_);
  const Forward forward = [&] { return chain.forward(); };
  const std::vector<at::Tensor> wanted = chain.gradients(forward());
  const auto store = store_of(chain);
  const Forward offloaded = [&] { return kept(*store, forward); };
  // The first weight's gradient needs all that was saved, and takes no memory itself.
  const auto peak_of = [&](const Forward& pass) {
    const std::int64_t before = read_cuda_memory().used;
    reset_cuda_memory_peak();
    torch::autograd::grad({pass()}, {chain.weights.front()});
    return read_cuda_memory().peak - before;
  };
  const std::int64_t raw = peak_of(forward);
  std::int64_t taken = 0;
  for (int pass = 0; pass < 4; ++pass) {
    expect_equal(chain.gradients(offloaded()), wanted);
    EXPECT_LT(peak_of(offloaded), raw / 2) << pass;
    store->end_pass();
    EXPECT_TRUE(pass == 0 || store->host_bytes() == taken) << pass;
    taken = store->host_bytes();
  }
  EXPECT_GE(taken, store->counts().host_bytes());
}

TEST_F(HostOffloadOnCuda, KeepsTwoPassesApartAndOutlivesTheStore) {
  const c10::cuda::CUDAStreamGuard guard(c10::cuda::getStreamFromPool());
  const LongChain chain(device_);
  const std::vector<at::Tensor> wanted = chain.gradients(chain.forward());
  auto store = store_of(chain);
  const Forward forward = [&] { return chain.forward(); };
  const at::Tensor first = kept(*store, forward), second = kept(*store, forward);
  store.reset();
  expect_equal(chain.gradients(second), wanted);
  expect_equal(chain.gradients(first), wanted);
}

TEST_F(HostOffloadOnCuda, LeavesEveryBitOfACapturedPassInEveryReplay) {
  const c10::cuda::CUDAStreamGuard guard(c10::cuda::getStreamFromPool());
  const LongChain chain(device_);
  const auto store = store_of(chain);
  std::vector<at::Tensor> left;
  for (const at::Tensor& weight : chain.weights) left.push_back(torch::empty_like(weight));
  const auto step = [&] {
    store->begin_pass(/*in_step=*/true);
    at::Tensor loss;
    {
      const SavedTensorScope scope(*store);
      loss = chain.forward();
    }
    const std::vector<at::Tensor> gradients = chain.gradients(loss);
    for (std::size_t i = 0; i < left.size(); ++i) left[i].copy_(gradients[i]);
    store->end_pass();
  };
  step();
  const std::int64_t taken = store->host_bytes();
  WorkPool pool;
  CapturedWork work(pool, step);
  EXPECT_EQ(store->host_bytes(), taken) << "a capture takes no host memory";
  for (int replay = 0; replay < 3; ++replay) {
    at::Tensor x = chain.x;
    x.normal_();
    const std::vector<at::Tensor> wanted = chain.gradients(chain.forward());
    // A pass of the caller's own between replays lies elsewhere.
    const at::Tensor own = kept(*store, [&] { return chain.forward(); });
    work.replay();
    expect_equal(left, wanted);
    expect_equal(chain.gradients(own), wanted);
    store->end_pass();
  }
}

}  // namespace
}  // namespace triaccel
