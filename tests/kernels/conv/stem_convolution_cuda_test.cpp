#include "triaccel/kernels/conv/stem_convolution.h"

#include "tests/kernels/common/cuda_fixture.h"
#include "tests/kernels/conv/stem_convolution_cases.h"

namespace triaccel::kernels {
namespace {

class StemConvolutionOnCuda : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (!IsSkipped() && !cuda::has_stem_convolution())
      GTEST_SKIP() << "for chips from compute capability 8.0 on";
  }

  ImageResults computed(const StemConvolutionShape& s, const ImageTensors& tensors) {
    const at::Tensor images = tensors.images.to(device_), weight = tensors.weight.to(device_),
                     gradient = tensors.output_gradient.to(device_);
    const ImageResults found = poisoned_results({images, weight, gradient});
    const at::Tensor scratch = at::full({stem_scratch(s)}, 12345, weight.options());
    cuda::stem_convolution(s, images.data_ptr(), weight.data_ptr<float>(), found.output.data_ptr(),
                           stream());
    cuda::stem_weight_gradient(s, gradient.data_ptr(), images.data_ptr(), scratch.data_ptr<float>(),
                               found.weight_gradient.data_ptr<float>(), stream());
    return {found.output.cpu(), found.weight_gradient.cpu()};
  }

  void expect_oracle(const StemConvolutionShape& s) {
    const ImageTensors tensors = random_tensors(s);
    const ImageResults found = computed(s, tensors), again = computed(s, tensors);
    expect_close(found, computed_on_cpu(s, tensors), magnitudes(s, tensors), described(s));
    EXPECT_TRUE(at::equal(found.output, again.output)) << described(s);
    EXPECT_TRUE(at::equal(found.weight_gradient, again.weight_gradient)) << described(s);
  }
};

TEST_F(StemConvolutionOnCuda, IsThatOfTheOracle) {
  for (const std::int64_t images : {1, 3})
    for (const StemConvolutionShape& s : stem_convolution_shapes(images))
      ASSERT_NO_FATAL_FAILURE(expect_oracle(s));
}

/// Blocks take several tiles each, forward and backward.
TEST_F(StemConvolutionOnCuda, IsThatOfTheOracleInABatch) {
  for (const StemConvolutionShape& s : stem_convolution_shapes(300)) {
    const bool is_stem = s.rows.input == 32 && s.columns.input == 32 && s.channels_last;
    if (!is_stem || s.image_type != FloatType::F32) continue;
    ASSERT_NO_FATAL_FAILURE(expect_oracle(s));
  }
}

/// On small whole numbers, whose sums are exact in any order.
TEST_F(StemConvolutionOnCuda, IsExactOnWholeNumbers) {
  for (const StemConvolutionShape& s : stem_convolution_shapes(2)) {
    ImageTensors tensors = random_tensors(s);
    for (at::Tensor* tensor : {&tensors.images, &tensors.weight, &tensors.output_gradient})
      tensor->copy_(at::randint(-2, 3, tensor->sizes()));
    spoil_unseen(s, tensors.images);
    const ImageResults found = computed(s, tensors), wanted = computed_on_cpu(s, tensors);
    EXPECT_TRUE(at::equal(found.output, wanted.output)) << described(s);
    EXPECT_TRUE(at::equal(found.weight_gradient, wanted.weight_gradient)) << described(s);
  }
}

TEST_F(StemConvolutionOnCuda, TakesNoImages) {
  const StemConvolutionShape s = {.images = 0, .channels = 3, .filters = 8};
  const ImageResults found = computed(s, random_tensors(s));
  EXPECT_TRUE(at::equal(found.weight_gradient, at::zeros_like(found.weight_gradient)));
}

}  // namespace
}  // namespace triaccel::kernels
