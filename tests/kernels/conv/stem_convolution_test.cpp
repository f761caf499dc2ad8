#include "triaccel/kernels/conv/stem_convolution.h"

#include "tests/kernels/conv/stem_convolution_cases.h"

namespace triaccel::kernels {
namespace {

TEST(StemConvolution, FollowsItsDefinition) {
  at::manual_seed(1);
  for (const StemConvolutionShape& s : stem_convolution_shapes(1)) {
    const ImageTensors tensors = random_tensors(s);
    ASSERT_NO_FATAL_FAILURE(expect_close(computed_on_cpu(s, tensors), by_definition(s, tensors),
                                         magnitudes(s, tensors), described(s)));
  }
}

TEST(StemConvolution, AddsUpTheGradientsOfSeveralImages) {
  at::manual_seed(1);
  for (const StemConvolutionShape& s : stem_convolution_shapes(3)) {
    if (s.image_type != FloatType::F32 || s.type != FloatType::Bf16) continue;
    const ImageTensors tensors = random_tensors(s);
    ASSERT_NO_FATAL_FAILURE(expect_close(computed_on_cpu(s, tensors), by_definition(s, tensors),
                                         magnitudes(s, tensors), described(s)));
  }
}

TEST(StemConvolution, HasAZeroWeightGradientWithoutImages) {
  const StemConvolutionShape s = {.images = 0, .channels = 3, .filters = 8};
  std::vector<float> gradient(24, 7);
  cpu::stem_weight_gradient(s, nullptr, nullptr, gradient.data());
  EXPECT_EQ(gradient, std::vector<float>(24, 0));
}

}  // namespace
}  // namespace triaccel::kernels
