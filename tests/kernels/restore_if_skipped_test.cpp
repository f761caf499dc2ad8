#include "triaccel/kernels/restore_if_skipped.h"

#include <gtest/gtest.h>

#include "tests/kernels/tensor_bunch.h"

namespace triaccel::kernels {
namespace {

TEST(RestoreIfSkipped, PutsEveryBitBackAfterASkippedStep) {
  const TensorBunch bunch(awkward_sizes());
  const TensorBunch before = bunch.on(at::kCPU);
  const StepControl skipped = {.skip = 1};
  cpu::restore_if_skipped(bunch.entries(), &skipped);
  EXPECT_TRUE(same_bits(bunch.parameters, before.states1));
  EXPECT_TRUE(same_bits(bunch.states1, before.states1));
}

TEST(RestoreIfSkipped, TouchesNothingOtherwise) {
  const TensorBunch bunch(awkward_sizes());
  const TensorBunch before = bunch.on(at::kCPU);
  const StepControl applied;
  cpu::restore_if_skipped(bunch.entries(), &applied);
  EXPECT_TRUE(same_bits(bunch.parameters, before.parameters));
}

}  // namespace
}  // namespace triaccel::kernels
