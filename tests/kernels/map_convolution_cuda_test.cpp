#include "tests/kernels/cuda_fixture.h"
#include "tests/kernels/map_convolution_cases.h"
#include "triaccel/kernels/map_convolution_work.h"

namespace triaccel::kernels {
namespace {

class MapConvolutionOnCuda : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (!IsSkipped() && !cuda::has_map_convolution())
      GTEST_SKIP() << "for chips from compute capability 9.0 on";
  }

  at::Tensor forward(const MapConvolutionCase& c, const MapTensors& t) {
    const at::Tensor map = t.map.to(device_), weight = t.weight.to(device_),
                     output = t.empty_output().to(device_);
    cuda::map_convolution(c.shape(), map.data_ptr(), weight.data_ptr(), output.data_ptr(),
                          stream());
    return output.cpu();
  }

  at::Tensor gradient(const MapConvolutionCase& c, const MapTensors& t) {
    const at::Tensor from = t.gradient.to(device_), weight = t.weight.to(device_),
                     to = t.empty_input_gradient().to(device_);
    cuda::map_input_gradient(c.shape(), from.data_ptr(), weight.data_ptr(), to.data_ptr(),
                             stream());
    return to.cpu();
  }
};

bool has_forward(const MapConvolutionCase& c) {
  return cut_map_product(forward_product(c.shape())).has_value();
}
bool has_gradient(const MapConvolutionCase& c) {
  return c.stride == 1 && cut_map_product(gradient_product(c.shape())).has_value();
}

/// In batches, too, so that there are many tiles.
std::vector<MapConvolutionCase> cases_of_all_sizes() {
  std::vector<MapConvolutionCase> cases;
  for (MapConvolutionCase c : map_convolution_cases()) {
    if (!has_forward(c) && !has_gradient(c)) continue;
    cases.push_back(c);
    c.samples = 96;
    if (c.channels <= 128 && c.height <= 8) cases.push_back(c);
  }
  return cases;
}

/// On small whole numbers, whose sums are exact in any order.
TEST_F(MapConvolutionOnCuda, IsExactOnWholeNumbers) {
  for (const MapConvolutionCase& c : cases_of_all_sizes()) {
    const MapTensors t(c, [](at::IntArrayRef sizes) { return at::randint(-2, 3, sizes); });
    if (has_forward(c)) {
      const at::Tensor output = t.empty_output();
      cpu::map_convolution(c.shape(), t.map.data_ptr(), t.weight.data_ptr(), output.data_ptr());
      EXPECT_TRUE(at::equal(forward(c, t), output)) << c.name();
    }
    if (!has_gradient(c)) continue;
    const at::Tensor of_input = t.empty_input_gradient();
    cpu::map_input_gradient(c.shape(), t.gradient.data_ptr(), t.weight.data_ptr(),
                            of_input.data_ptr());
    EXPECT_TRUE(at::equal(gradient(c, t), of_input)) << c.name();
  }
}

TEST_F(MapConvolutionOnCuda, IsThatOfTheOracleWithTheSameBitsEachTime) {
  for (const MapConvolutionCase& c : map_convolution_cases()) {
    const MapTensors t(c);
    if (has_gradient(c)) {
      EXPECT_TRUE(at::equal(gradient(c, t), gradient(c, t))) << c.name();
    }
    if (!has_forward(c)) continue;
    const at::Tensor wide = t.map.to(at::kDouble), by = t.weight.to(at::kDouble);
    const auto convolved = [&](const at::Tensor& map, const at::Tensor& weight) {
      return at::conv2d(map, weight, {}, {c.stride, c.stride}, {c.padding, c.padding});
    };
    const at::Tensor found = forward(c, t);
    EXPECT_TRUE(is_close(found, convolved(wide, by), convolved(wide.abs(), by.abs()))) << c.name();
    EXPECT_TRUE(at::equal(found, forward(c, t))) << c.name();
  }
}

TEST_F(MapConvolutionOnCuda, TakesNoSamples) {
  const MapConvolutionCase c{0, 64, 64, 4, 4, 3, 3, 1, 1};
  EXPECT_EQ(forward(c, MapTensors(c)).numel(), 0);
}

}  // namespace
}  // namespace triaccel::kernels
