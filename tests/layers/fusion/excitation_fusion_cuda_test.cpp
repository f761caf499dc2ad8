#include <gtest/gtest.h>

#include <cmath>

#include "tests/layers/fusion/excitation_network.h"
#include "triaccel/device/device_choice.h"

namespace triaccel {
namespace {

class ExcitationFusionOnCuda : public testing::Test {
 protected:
  void SetUp() override {
    if (!at::hasCUDA()) GTEST_SKIP() << "this machine has no CUDA device";
    set_arithmetic(/*deterministic=*/true);
  }
  void TearDown() override { set_arithmetic(/*deterministic=*/false); }

  static ExcitedPass pass(const std::vector<Precision>& precisions, bool joined) {
    return efficientnet_pass(at::Device(at::kCUDA, 0), /*width=*/0, /*batch=*/96, precisions,
                             joined);
  }
};

TEST_F(ExcitationFusionOnCuda, GivesEfficientNetTheGradientsOfTheOperatorsOneByOne) {
  const ExcitedPass wanted = pass({Precision::Fp32}, false), found = pass({Precision::Fp32}, true);
  EXPECT_NEAR(found.loss, wanted.loss, 1e-5 * wanted.loss);
  EXPECT_LE(distance(found, wanted), 1e-3);
}

/// Gradients of 16-bit passes of so deep a network differ by a third from those of FP32, whichever
/// way they are computed; losses do not.
TEST_F(ExcitationFusionOnCuda, GivesEfficientNetTheLossOfTheOperatorsInEveryPlan) {
  for (const auto& precisions :
       {std::vector{Precision::Bf16}, {Precision::Fp16, Precision::Bf16, Precision::Fp32}}) {
    const ExcitedPass wanted = pass(precisions, false), found = pass(precisions, true);
    EXPECT_NEAR(found.loss, wanted.loss, 0.01 * wanted.loss);
    EXPECT_TRUE(std::isfinite(distance(found, wanted)));
  }
}

TEST_F(ExcitationFusionOnCuda, GivesTheSameBitsRunAfterRun) {
  const ExcitedPass once = pass({Precision::Bf16}, true), again = pass({Precision::Bf16}, true);
  EXPECT_EQ(once.loss, again.loss);
  for (std::size_t i = 0; i < once.gradients.size(); ++i)
    EXPECT_TRUE(at::equal(once.gradients[i], again.gradients[i])) << once.names[i];
}

}  // namespace
}  // namespace triaccel
