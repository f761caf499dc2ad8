#include "triaccel/data/stored_samples.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/formats/sample_files.h"
#include "tests/support/sample_sets.h"
#include "triaccel/data/epoch_order.h"
#include "triaccel/data/load_data.h"
#include "triaccel/data/tensor_data.h"
#include "triaccel/device/cpu_memory.h"
#include "triaccel/device/out_of_memory.h"

namespace triaccel {
namespace {

const c10::Device kCpuDevice(c10::kCPU);
const DataPlace kInHostMemory(kCpuDevice, /*host=*/true);

/// More than any machine has, in one element.
at::Tensor huge_samples(std::int64_t count) {
  return at::zeros({1, 1}, at::kByte).expand({count, std::int64_t{1} << 49});
}

TEST(StoredSamples, InHostMemoryAreACopyThatNoBudgetCounts) {
  install_cpu_memory();
  const at::Tensor values = at::arange(30'000).view({100, 300}).t();  // not contiguous
  const std::int64_t before = read_cpu_memory().used;
  const StoredSamples samples(values, kInHostMemory);
  EXPECT_EQ(read_cpu_memory().used, before);
  EXPECT_TRUE(at::equal(samples.tensor(), values));
  EXPECT_NE(samples.tensor().const_data_ptr(), values.const_data_ptr());
  EXPECT_EQ(samples.host_bytes(), 240'000);
  EXPECT_EQ(samples.device_bytes(), 0);
}

TEST(StoredSamples, OnTheDeviceAreTheCallersTensor) {
  const at::Tensor values = at::arange(10);
  const StoredSamples samples(values, kCpuDevice);
  EXPECT_EQ(samples.tensor().const_data_ptr(), values.const_data_ptr());
  EXPECT_EQ(samples.device_bytes(), 80);
  EXPECT_EQ(samples.host_bytes(), 0);
}

TEST(StoredSamples, CopyTheCallersNumbersToEitherPlace) {
  for (const bool host : {false, true}) {
    std::vector<std::int16_t> numbers = {3, 1, 2};
    const auto samples = StoredSamples::copy(numbers.data(), {3}, at::kShort, {kCpuDevice, host});
    numbers.assign(3, 0);
    EXPECT_TRUE(at::equal(samples.tensor(), at::tensor({3, 1, 2}, at::kShort)));
    EXPECT_EQ(samples.host_bytes(), host ? 6 : 0);
  }
}

TEST(StoredSamples, OutliveTheirOtherCopies) {
  at::Tensor kept;
  {
    const StoredSamples samples(at::full({1000}, 7), kInHostMemory);
    const StoredSamples other = samples;
    kept = other.tensor().narrow(0, 500, 100);
  }
  EXPECT_TRUE(kept.eq(7).all().item<bool>());
}

TEST(StoredSamples, MoveBetweenBothPlaces) {
  const at::Tensor values = at::arange(10);
  const StoredSamples on_host = StoredSamples(values, kCpuDevice).moved_to(kInHostMemory);
  EXPECT_EQ(on_host.host_bytes(), 80);
  EXPECT_EQ(on_host.moved_to(kInHostMemory).tensor().const_data_ptr(),
            on_host.tensor().const_data_ptr());
  const StoredSamples back = on_host.moved_to(kCpuDevice);
  EXPECT_EQ(back.device_bytes(), 80);
  EXPECT_NE(back.tensor().const_data_ptr(), on_host.tensor().const_data_ptr());
  EXPECT_TRUE(at::equal(back.tensor(), values));
}

TEST(TensorData, StaysAsItIsWhenHostMemoryRunsOut) {
  TensorData data(at::ones({2, 3}), huge_samples(2));
  const std::int64_t before = data.bytes();
  EXPECT_THROW(catching_out_of_memory([&] { data.move_to(kInHostMemory); }), OutOfMemory);
  EXPECT_EQ(data.host_bytes(), 0);
  EXPECT_EQ(data.bytes(), before);
}

TEST(ImageData, RunsOutOfMemoryWithNothingLeftBehind) {
  install_cpu_memory();
  const ImageSet set = synthetic_images({.train_count = 20, .test_count = 1}).train;
  const PixelStatistics statistics = pixel_statistics(set);
  for (const bool host : {false, true}) {
    const auto store = [&] { ImageData(set, statistics, {}, {kCpuDevice, host}); };
    const std::int64_t used = read_cpu_memory().used, before = cpu_allocation_count();
    store();
    const std::int64_t allocations = cpu_allocation_count() - before;
    EXPECT_GT(allocations, 3);
    for (std::int64_t failing = 0; failing < allocations; ++failing) {
      fail_cpu_allocation(failing);
      EXPECT_THROW(catching_out_of_memory(store), OutOfMemory);
      fail_cpu_allocation(-1);
      EXPECT_EQ(read_cpu_memory().used, used) << failing;
    }
  }
}

TEST(TensorData, GathersTheSameFromHostMemory) {
  const at::Tensor inputs = at::rand({20, 2, 3}), targets = at::arange(40).view({20, 2});
  TensorData data(inputs, targets);
  data.move_to(kInHostMemory);
  EXPECT_EQ(data.bytes(), 0);
  EXPECT_EQ(data.host_bytes(), 20 * (6 * 4 + 2 * 8));
  const at::Tensor ids = at::tensor({7, 0, 19}, at::kLong);
  const Batch batch = data.gather(ids, {});
  EXPECT_TRUE(at::equal(batch.inputs, inputs.index_select(0, ids)));
  EXPECT_TRUE(at::equal(batch.targets, targets.index_select(0, ids)));
}

/// Batches of two epochs with augmentation, and the whole test set.
std::vector<at::Tensor> batches_of(const LoadedData& data) {
  std::vector<at::Tensor> all;
  Sampler sampler(data.training_ids, 3);
  EpochOrder order(kCpuDevice, data.train.get());
  for (const std::int64_t count : {16, 5, 16}) {
    const at::Tensor ids = order.upcoming(sampler, count);
    for (const std::int64_t epoch : {0, 1}) {
      const GatherOptions how{.augment = true, .epoch = epoch, .seed = 9};
      data.train->enter_epoch(how);
      const Batch batch = data.train->gather(ids, how);
      all.insert(all.end(), {batch.inputs, batch.targets});
    }
    sampler.take(count);
  }
  const Batch whole = gather_unprepared(*data.test, at::arange(data.test->size()));
  all.insert(all.end(), {whole.inputs, whole.targets});
  return all;
}

TEST(LoadData, GivesTheSameBitsFromHostMemory) {
  const test::TestFolder root;
  write_clouds(root.path());
  write_text(root.path());
  for (const std::string name : {"synthetic", "modelnet40", "text"}) {
    DataOptions options{.name = name, .root = root.path(), .context_length = 32};
    const LoadedData on_device = load_data(options, kCpuDevice);
    const std::int64_t bytes = on_device.train->bytes() + on_device.test->bytes();
    options.device_bytes = bytes;
    EXPECT_EQ(load_data(options, kCpuDevice).train->host_bytes(), 0) << name;
    options.device_bytes = bytes * 9 / 10;
    const LoadedData on_host = load_data(options, kCpuDevice);
    EXPECT_LE(on_host.train->bytes(), on_host.train->size()) << name << ": labels only";
    EXPECT_GT(on_host.train->host_bytes() + on_host.test->host_bytes(), options.device_bytes);
    EXPECT_NE(on_host.notices.back().find("stay in host memory"), std::string::npos);
    const std::vector<at::Tensor> wanted = batches_of(on_device), found = batches_of(on_host);
    ASSERT_EQ(found.size(), wanted.size());
    for (std::size_t i = 0; i < wanted.size(); ++i)
      EXPECT_TRUE(at::equal(found[i], wanted[i])) << name << ", tensor " << i;
  }
}

}  // namespace
}  // namespace triaccel
