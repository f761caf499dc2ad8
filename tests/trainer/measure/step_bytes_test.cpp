#include "triaccel/trainer/measure/step_bytes.h"

#include <gtest/gtest.h>

#include "triaccel/base/error.h"

namespace triaccel {
namespace {

constexpr std::int64_t kAll = 5;  // layers of LeNet-5

CountedStep lenet(std::int64_t batch, std::int64_t bp_layers) {
  return {.network = int8::lenet5({}), .batch = batch, .bp_layers = bp_layers};
}

CountedStep points(std::int64_t bp_layers) {
  return {.network = int8::pointnet({}), .batch = 32, .bp_layers = bp_layers};
}

double fp32_sum(const CountedStep& step) {
  return static_cast<double>(fp32_step_bytes(step, ByteCount::Sum));
}

double int8_sum(const CountedStep& step) {
  return static_cast<double>(int8_step_bytes(step, ByteCount::Sum));
}

/// Per cent more than zeroth order alone.
double overhead(const CountedStep& step, ByteCount count) {
  CountedStep alone = step;
  alone.bp_layers = 0;
  return 100 * (static_cast<double>(fp32_step_bytes(step, count)) /
                    static_cast<double>(fp32_step_bytes(alone, count)) -
                1);
}

TEST(StepBytes, OfSummedBuffersAreThoseOfLeNet5InMegabytes) {
  struct Line {
    std::int64_t bp_layers;
    double fp32_32, fp32_256, int8_32, int8_256;
  };
  for (const Line& line :
       {Line{0, 2.743, 18.923, 1.716, 12.978}, Line{1, 2.747, 18.936, 1.721, 12.984},
        Line{2, 2.809, 19.149, 1.777, 13.078}, Line{kAll, 5.485, 37.845, 2.832, 18.138}}) {
    EXPECT_NEAR(fp32_sum(lenet(32, line.bp_layers)) / 1e6, line.fp32_32, 5.1e-4);
    EXPECT_NEAR(fp32_sum(lenet(256, line.bp_layers)) / 1e6, line.fp32_256, 5.1e-4);
    EXPECT_NEAR(int8_sum(lenet(32, line.bp_layers)) / 1e6, line.int8_32, 5.1e-4);
    EXPECT_NEAR(int8_sum(lenet(256, line.bp_layers)) / 1e6, line.int8_256, 5.1e-4);
  }
}

TEST(StepBytes, OfSummedBuffersReproduceTheAbstract) {
  EXPECT_NEAR(overhead(lenet(256, 1), ByteCount::Sum), 0.072, 5e-4);
  EXPECT_NEAR(fp32_sum(lenet(256, 0)) / int8_sum(lenet(256, 0)), 1.46, 5e-3);
  EXPECT_NEAR(fp32_sum(lenet(32, 0)) / int8_sum(lenet(32, 0)), 1.60, 5e-3);
  EXPECT_EQ(fp32_sum(lenet(32, kAll)), 2 * fp32_sum(lenet(32, 0)));
  EXPECT_EQ(fp32_sum(points(8)), 2 * fp32_sum(points(0)));
}

TEST(StepBytes, WithSharedErrorsReproduceTheAbstractsUpperEndToo) {
  EXPECT_NEAR(overhead(lenet(256, 1), ByteCount::SumSharedErrors), 0.072, 5e-4);
  EXPECT_NEAR(overhead(lenet(32, 2), ByteCount::SumSharedErrors), 1.65, 5e-3);
}

TEST(StepBytes, OfPointNetAreMostlyActivations) {
  EXPECT_NEAR(fp32_sum(points(0)) / 1e6, 532, 0.5);
  EXPECT_NEAR(overhead(points(1), ByteCount::Sum), 0.009, 5e-4);
  EXPECT_NEAR(overhead(points(2), ByteCount::Sum), 0.12, 5e-3);
}

TEST(StepBytes, AliveAtOnceNeedNoMoreForOneOrTwoLayersByBackpropagation) {
  const auto kib = [](std::int64_t batch, std::int64_t bp_layers) {
    return (fp32_step_bytes(lenet(batch, bp_layers), ByteCount::Liveness) + 512) / 1024;
  };
  for (const std::int64_t bp_layers : {0, 1, 2}) {
    EXPECT_EQ(kib(32, bp_layers), 1254) << bp_layers;
    EXPECT_EQ(kib(256, bp_layers), 7085) << bp_layers;
  }
  EXPECT_EQ(kib(32, kAll), 1525);
  EXPECT_EQ(kib(256, kAll), 9250);
}

TEST(StepBytes, OfIntegersWithExponentsOfTheirOwnFallFiveTimesBelowFp32) {
  const std::int64_t fp32 = fp32_step_bytes(lenet(32, 2), ByteCount::Liveness);
  const std::int64_t lean = int8_step_bytes(lenet(32, 2), ByteCount::Liveness);
  EXPECT_GE(fp32, 5 * lean);
}

TEST(StepBytes, RejectMoreLayersThanThereAre) {
  EXPECT_THROW(fp32_step_bytes(lenet(32, 6), ByteCount::Sum), UsageError);
  EXPECT_THROW(int8_step_bytes(lenet(0, 1), ByteCount::Sum), UsageError);
}

}  // namespace
}  // namespace triaccel
