#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "triaccel/base/error.h"
#include "triaccel/data/load_data.h"
#include "triaccel/data/stored_samples.h"
#include "triaccel/data/tensor_data.h"
#include "triaccel/device/cuda_memory.h"
#include "triaccel/device/out_of_memory.h"

namespace triaccel {
namespace {

class SamplesInHostMemory : public testing::Test {
 protected:
  void SetUp() override {
    if (!cuda_available()) GTEST_SKIP() << "this machine has no CUDA device";
    (void)at::ones({1}, at::TensorOptions(at::kFloat).device(device));  // starts the allocator
  }

  const c10::Device device{c10::kCUDA, 0};
  const DataPlace in_host_memory{device, /*host=*/true};
};

TEST_F(SamplesInHostMemory, AreReadByTheGpuAndTakeNoneOfItsMemory) {
  const at::Tensor values = at::arange(3'000'000).view({3000, 1000});
  const std::int64_t before = read_cuda_memory().used;
  const StoredSamples samples(values, in_host_memory);
  EXPECT_EQ(read_cuda_memory().used, before);
  EXPECT_EQ(samples.host_bytes(), 24'000'000);
  EXPECT_TRUE(samples.tensor().is_cuda());
  const at::Tensor ids = at::tensor({2999, 0, 17}, at::kLong);
  EXPECT_TRUE(at::equal(samples.tensor().index_select(0, ids.to(device)).cpu(),
                        values.index_select(0, ids)));
  EXPECT_TRUE(at::equal(samples.tensor().cpu(), values));
}

TEST_F(SamplesInHostMemory, ComeFromTheGpuToo) {
  const at::Tensor values = at::rand({100, 7}, at::TensorOptions(at::kFloat).device(device));
  EXPECT_TRUE(at::equal(StoredSamples(values, in_host_memory).tensor(), values));
}

TEST_F(SamplesInHostMemory, MoveToTheDevice) {
  const at::Tensor values = at::arange(3'000'000);
  const StoredSamples on_host(values, in_host_memory);
  const std::int64_t before = read_cuda_memory().used;
  const StoredSamples on_device = on_host.moved_to(device);
  EXPECT_GE(read_cuda_memory().used, before + 24'000'000);
  EXPECT_EQ(on_device.device_bytes(), 24'000'000);
  EXPECT_TRUE(at::equal(on_device.tensor().cpu(), values));
}

TEST_F(SamplesInHostMemory, ThatGetNoneLeaveTheirSetAsItWas) {
  TensorData data(at::ones({2, 3}),
                  at::zeros({1, 1}, at::kByte).expand({2, std::int64_t{1} << 49}));
  EXPECT_THROW(catching_out_of_memory([&] { data.move_to(in_host_memory); }), OutOfMemory);
  EXPECT_EQ(data.host_bytes(), 0);
  EXPECT_EQ(at::ones({4}, at::TensorOptions(at::kFloat).device(device)).sum().item<float>(), 4)
      << "the failure is not reported again";
}

TEST_F(SamplesInHostMemory, GiveTheBatchesOfThoseOnTheDevice) {
  const LoadedData on_device = load_data({.name = "synthetic"}, device);
  const LoadedData on_host = load_data({.name = "synthetic", .device_bytes = 0}, device);
  EXPECT_EQ(on_host.train->bytes(), on_host.train->size()) << "labels";
  const at::Tensor ids = at::arange(0, 4096, 37).to(device);
  for (const std::int64_t epoch : {0, 1}) {
    const GatherOptions how{.augment = true, .epoch = epoch, .seed = 5};
    on_device.train->enter_epoch(how);
    on_host.train->enter_epoch(how);
    const Batch wanted = on_device.train->gather(ids, how);
    const Batch found = on_host.train->gather(ids, how);
    EXPECT_TRUE(at::equal(found.inputs, wanted.inputs));
    EXPECT_TRUE(at::equal(found.targets, wanted.targets));
  }
}

}  // namespace
}  // namespace triaccel
