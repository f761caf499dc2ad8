#include "triaccel/kernels/image_convolution.h"

#include "tests/kernels/image_convolution_cases.h"

namespace triaccel::kernels {
namespace {

TEST(ImageConvolution, FollowsItsDefinition) {
  at::manual_seed(1);
  for (const ImageConvolutionShape& s : image_convolution_shapes(1)) {
    const ImageTensors tensors = random_tensors(s);
    ASSERT_NO_FATAL_FAILURE(expect_close(computed_on_cpu(s, tensors), by_definition(s, tensors),
                                         magnitudes(s, tensors), described(s)));
  }
}

TEST(ImageConvolution, AddsUpTheGradientsOfSeveralImages) {
  at::manual_seed(1);
  for (const ImageConvolutionShape& s : image_convolution_shapes(3)) {
    if (s.image_type != FloatType::F32 || s.type != FloatType::Bf16) continue;
    const ImageTensors tensors = random_tensors(s);
    ASSERT_NO_FATAL_FAILURE(expect_close(computed_on_cpu(s, tensors), by_definition(s, tensors),
                                         magnitudes(s, tensors), described(s)));
  }
}

TEST(ImageConvolution, HasAZeroWeightGradientWithoutImages) {
  const ImageConvolutionShape s = {.images = 0, .channels = 3, .filters = 8};
  std::vector<float> gradient(24, 7);
  cpu::image_weight_gradient(s, nullptr, nullptr, gradient.data());
  EXPECT_EQ(gradient, std::vector<float>(24, 0));
}

}  // namespace
}  // namespace triaccel::kernels
