#include "triaccel/kernels/update/restore_if_skipped.h"

#include <gtest/gtest.h>

#include "tests/kernels/common/tensor_bunch.h"

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

TEST(SaveToRestore, CopiesEveryBitAndRestoreBringsItBack) {
  const TensorBunch bunch(awkward_sizes());
  const TensorBunch before = bunch.on(at::kCPU);
  cpu::save_to_restore(bunch.entries());
  EXPECT_TRUE(same_bits(bunch.parameters, before.parameters));
  EXPECT_TRUE(same_bits(bunch.states1, before.parameters));
  for (const at::Tensor& parameter : bunch.parameters) parameter.zero_();
  cpu::restore(bunch.entries());
  EXPECT_TRUE(same_bits(bunch.parameters, before.parameters));
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
