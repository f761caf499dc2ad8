#include "triaccel/device/cpu_memory.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "triaccel/base/error.h"
#include "triaccel/device/host_memory.h"
#include "triaccel/device/memory_gauge.h"
#include "triaccel/device/out_of_memory.h"

namespace triaccel {
namespace {

class CpuMemory : public testing::Test {
 protected:
  CpuMemory() : gauge(c10::Device(c10::kCPU)) { gauge.reset_peak(); }
  ~CpuMemory() override {
    gauge.set_limit(0);
    fail_cpu_allocation(-1);
  }
  MemoryGauge gauge;
};

TEST_F(CpuMemory, CountsEveryByteOfALiveTensor) {
  const std::int64_t before = gauge.used();
  auto tensor = at::empty({1000}, at::kFloat);
  EXPECT_EQ(gauge.used() - before, 4000);
  tensor.reset();
  EXPECT_EQ(gauge.used(), before);
  EXPECT_EQ(gauge.read().peak - before, 4000);
}

TEST_F(CpuMemory, ForgetsThePeakWhenAsked) {
  { auto tensor = at::empty({1 << 20}, at::kByte); }
  EXPECT_GE(gauge.read().peak, 1 << 20);
  gauge.reset_peak();
  EXPECT_EQ(gauge.read().peak, gauge.used());
}

TEST_F(CpuMemory, RefusesTheAllocationThatWouldPassTheLimit) {
  gauge.set_limit(gauge.used() + 4096);
  auto fits = at::empty({4096}, at::kByte);
  EXPECT_THROW(catching_out_of_memory([] { return at::empty({1}, at::kByte); }), OutOfMemory);
  fits.reset();
  EXPECT_NO_THROW(at::empty({4096}, at::kByte));
  EXPECT_LE(gauge.read().peak, gauge.read().limit);
}

TEST_F(CpuMemory, BooksABlockUnderThePurposeItWasTakenFor) {
  const auto weights = static_cast<std::size_t>(MemoryPurpose::Weights);
  const std::int64_t before = gauge.read().peak_by_purpose[weights];
  at::Tensor tensor;
  {
    MemoryPurposeScope scope(MemoryPurpose::Weights);
    tensor = at::empty({512}, at::kByte);
  }
  auto other = at::empty({2048}, at::kByte);
  EXPECT_EQ(gauge.read().peak_by_purpose[weights] - before, 512);
  tensor.reset();
  gauge.reset_peak();
  EXPECT_EQ(gauge.read().peak_by_purpose[weights], before);
}

TEST_F(CpuMemory, FailsTheChosenAllocationOnce) {
  fail_cpu_allocation(1);
  auto first = at::empty({8}, at::kByte);
  EXPECT_THROW(at::empty({8}, at::kByte), c10::OutOfMemoryError);
  EXPECT_NO_THROW(at::empty({8}, at::kByte));
}

TEST_F(CpuMemory, FailsForGoodWhenAsked) {
  fail_cpu_allocation(0, /*persistently=*/true);
  EXPECT_THROW(at::empty({8}, at::kByte), c10::OutOfMemoryError);
  EXPECT_THROW(at::empty({8}, at::kByte), c10::OutOfMemoryError);
}

TEST_F(CpuMemory, LeavesHostMemoryOutOfTheAccountButFailsItLikeAnyOther) {
  const std::int64_t used = gauge.used();
  limit_cpu_memory(used + 64);
  const MappedMemory memory = host_memory_for(at::kCPU, 1 << 20);
  EXPECT_EQ(memory.on_device, memory.host.get());
  EXPECT_EQ(gauge.used(), used);
  limit_cpu_memory(0);
  fail_cpu_allocation(0);
  EXPECT_THROW(host_memory_for(at::kCPU, 1 << 20), OutOfMemory);
  EXPECT_NO_THROW(host_memory_for(at::kCPU, 1 << 20));
}

TEST_F(CpuMemory, SurvivesAnOutOfMemoryInsideBackward) {
  auto weight = at::randn({64, 64}).requires_grad_();
  auto loss = (at::randn({32, 64}).mm(weight)).tanh().sum();
  fail_cpu_allocation(2);
  EXPECT_THROW(catching_out_of_memory([&] { loss.backward(); }), OutOfMemory);
  fail_cpu_allocation(-1);
  EXPECT_NO_THROW((at::randn({32, 64}).mm(weight)).sum().backward());
}

}  // namespace
}  // namespace triaccel
