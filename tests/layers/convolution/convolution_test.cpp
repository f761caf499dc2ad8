#include "triaccel/layers/convolution/convolution.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include "triaccel/device/cpu_memory.h"
#include "triaccel/layers/convolution/convolution_parts.h"
#include "triaccel/layers/convolution/gemm_convolution.h"
#include "triaccel/layers/convolution/kernel_choice.h"
#include "triaccel/layers/execution/rounding.h"

namespace triaccel {
namespace {

using Sizes = std::vector<std::int64_t>;

struct ConvolutionCase {
  const char* name;
  Sizes input, weight;
  ConvolutionGeometry geometry;
};

ConvolutionGeometry geometry(Sizes stride, Sizes padding, Sizes dilation, std::int64_t groups = 1) {
  const Sizes none(stride.size(), 0);
  return {.stride = stride,
          .padding = padding,
          .dilation = dilation,
          .output_padding = none,
          .groups = groups};
}

std::vector<ConvolutionCase> cases() {
  ConvolutionGeometry transposed = geometry({2, 2}, {1, 1}, {1, 1});
  transposed.transposed = true;
  transposed.output_padding = {1, 1};
  return {
      {"a pixel, wide", {4, 64, 1, 1}, {48, 64, 3, 3}, geometry({1, 1}, {1, 1}, {1, 1})},
      {"two by two, wide", {3, 64, 2, 2}, {64, 64, 3, 3}, geometry({2, 2}, {1, 1}, {1, 1})},

      {"padded", {2, 5, 6, 7}, {4, 5, 3, 3}, geometry({1, 1}, {1, 1}, {1, 1})},
      {"stem", {2, 3, 11, 9}, {8, 3, 7, 7}, geometry({2, 2}, {3, 3}, {1, 1})},
      {"strided", {3, 8, 8, 8}, {16, 8, 3, 3}, geometry({2, 2}, {1, 1}, {1, 1})},
      {"shortcut", {3, 8, 8, 7}, {16, 8, 1, 1}, geometry({2, 2}, {0, 0}, {1, 1})},
      {"pointwise", {3, 8, 5, 4}, {6, 8, 1, 1}, geometry({1, 1}, {0, 0}, {1, 1})},
      {"one pixel", {4, 16, 1, 1}, {16, 16, 3, 3}, geometry({1, 1}, {1, 1}, {1, 1})},
      {"to one pixel", {4, 16, 2, 2}, {8, 16, 3, 3}, geometry({2, 2}, {1, 1}, {1, 1})},
      {"two pixels", {4, 16, 2, 2}, {8, 16, 3, 3}, geometry({1, 1}, {1, 1}, {1, 1})},
      {"whole map", {4, 6, 3, 5}, {8, 6, 3, 5}, geometry({1, 1}, {0, 0}, {1, 1})},
      {"whole rows", {4, 6, 3, 5}, {8, 6, 3, 1}, geometry({1, 1}, {0, 0}, {1, 1})},
      {"whole columns", {4, 6, 3, 5}, {8, 6, 1, 5}, geometry({1, 1}, {0, 0}, {1, 1})},
      {"one row, cropped", {2, 6, 1, 5}, {8, 6, 3, 3}, geometry({1, 1}, {1, 1}, {1, 1})},
      {"dilated", {2, 4, 9, 8}, {5, 4, 3, 2}, geometry({1, 1}, {2, 1}, {2, 3})},
      {"strided and dilated", {2, 4, 11, 12}, {5, 4, 3, 4}, geometry({3, 4}, {2, 3}, {2, 2})},
      {"wider stride than kernel", {2, 4, 10, 11}, {5, 4, 2, 1}, geometry({4, 3}, {1, 0}, {1, 1})},
      {"padding wider than kernel", {2, 3, 4, 4}, {2, 3, 2, 2}, geometry({1, 2}, {3, 3}, {1, 1})},
      {"grouped", {2, 8, 6, 6}, {12, 2, 3, 3}, geometry({1, 1}, {1, 1}, {1, 1}, 4)},
      {"depthwise, one pixel", {2, 8, 1, 1}, {8, 1, 5, 5}, geometry({1, 1}, {2, 2}, {1, 1}, 8)},
      {"one dimension", {3, 4, 13}, {6, 4, 5}, geometry({2}, {2}, {1})},
      {"one dimension, one pixel", {3, 4, 1}, {6, 4, 3}, geometry({1}, {1}, {1})},
      {"three dimensions",
       {2, 3, 4, 1, 5},
       {4, 3, 3, 3, 3},
       geometry({1, 1, 2}, {1, 1, 1}, {1, 1, 1})},
      {"transposed", {2, 6, 4, 5}, {6, 4, 3, 3}, transposed},
      {"no samples", {0, 4, 6, 6}, {5, 4, 3, 3}, geometry({1, 1}, {1, 1}, {1, 1})},
  };
}

double unit_roundoff(Precision precision) {
  switch (precision) {
    case Precision::Fp32:
      return 0x1.0p-24;
    case Precision::Bf16:
      return 0x1.0p-8;
    case Precision::Fp16:
      return 0x1.0p-11;
    case Precision::Int8:
      break;
  }
  return 0;
}

struct Results {
  at::Tensor output, input_gradient, weight_gradient;
};

/// In double precision, by libtorch.
Results reference(const at::Tensor& x, const at::Tensor& w, const at::Tensor& dy,
                  const ConvolutionGeometry& g) {
  Results results;
  results.output = at::convolution(x, w, {}, g.stride, g.padding, g.dilation, g.transposed,
                                   g.output_padding, g.groups);
  std::tie(results.input_gradient, results.weight_gradient, std::ignore) =
      at::convolution_backward(dy, x, w, c10::nullopt, g.stride, g.padding, g.dilation,
                               g.transposed, g.output_padding, g.groups, {true, true, false});
  return results;
}

/// One case in one precision: operands, the exact results and what the sums run over.
struct Problem {
  Precision precision;
  ConvolutionGeometry geometry;
  at::Tensor input, weight, output_gradient;
  Results exact;
  Results magnitude;  // the same sums over absolute values

  Problem(const ConvolutionCase& c, Precision in, bool channels_last)
      : precision(in), geometry(c.geometry) {
    at::manual_seed(7);
    input = at::randn(c.input);
    weight = at::randn(c.weight);
    if (channels_last && c.input.size() == 4) {
      input = input.contiguous(at::MemoryFormat::ChannelsLast);
      weight = weight.contiguous(at::MemoryFormat::ChannelsLast);
    }
    const auto rounded = [&](const at::Tensor& t) {
      return t.to(scalar_type_of(precision)).to(at::kDouble);
    };
    const at::Tensor x = rounded(input), w = rounded(weight);
    const at::Tensor y =
        at::convolution(x, w, {}, geometry.stride, geometry.padding, geometry.dilation,
                        geometry.transposed, geometry.output_padding, geometry.groups);
    output_gradient = at::randn(y.sizes());
    const at::Tensor dy = rounded(output_gradient);
    exact = reference(x, w, dy, geometry);
    magnitude = reference(x.abs(), w.abs(), dy.abs(), geometry);
  }

  /// One rounding of the result (two when it is stored in another type), and those of FP32 sums.
  /// libtorch's own 16-bit kernels may also round partial sums, on Arm several times.
  void expect_close(const at::Tensor& ours, const at::Tensor& exactly, const at::Tensor& sums,
                    ConvolutionKernel kernel) const {
    const double u = unit_roundoff(precision);
    const bool partial_sums =
        kernel.algorithm == ConvolutionAlgorithm::Stock && kernel.arithmetic == Arithmetic::Native;
    const double sum_error = std::max(partial_sums ? 4 * u : 0, 64 * 0x1.0p-24);
    const at::Tensor bound = exactly.abs() * (2 * u) + sums * sum_error + 0x1.0p-24;
    const at::Tensor error = (ours.to(at::kDouble) - exactly).abs();
    EXPECT_TRUE((error <= bound).all().item<bool>())
        << "worst " << (error / bound).max().item<double>() << " of the bound";
  }
};

template <typename Check>
void for_each_problem(Check check) {
  for (const ConvolutionCase& c : cases())
    for (Precision precision : {Precision::Fp32, Precision::Bf16, Precision::Fp16})
      for (bool channels_last : {false, true}) {
        const Problem problem(c, precision, channels_last);
        for (const ConvolutionKernel& kernel : kernel_candidates(precision, c.geometry, at::kCPU)) {
          const std::string where = std::string(c.name) + ", " + std::string(name_of(precision)) +
                                    " by " + name_of(kernel) +
                                    (channels_last ? ", channels last" : "");
          SCOPED_TRACE(where);
          check(problem, kernel);
        }
      }
}

TEST(Convolution, ComputesEveryGeometryWithinTheBoundOfItsFormat) {
  for_each_problem([](const Problem& p, ConvolutionKernel kernel) {
    for (at::ScalarType type : {at::kFloat, scalar_type_of(p.precision)}) {
      const at::Tensor y =
          convolution_forward(p.input, {p.weight, p.geometry, p.precision, kernel}, type);
      ASSERT_EQ(y.scalar_type(), type);
      ASSERT_EQ(y.sizes(), p.exact.output.sizes());
      if (y.numel() > 0) p.expect_close(y, p.exact.output, p.magnitude.output, kernel);
    }
  });
}

TEST(Convolution, DifferentiatesEveryGeometryWithinTheBoundOfItsFormat) {
  for_each_problem([](const Problem& p, ConvolutionKernel kernel) {
    const at::ScalarType type = scalar_type_of(p.precision);
    const LayerGradients gradients = convolution_backward(
        p.output_gradient, p.input.to(type), {p.weight, p.geometry, p.precision, kernel},
        {.input = at::kFloat, .weight = type});
    ASSERT_EQ(gradients.input.scalar_type(), at::kFloat);
    ASSERT_EQ(gradients.weight.scalar_type(), type);
    ASSERT_EQ(gradients.input.sizes(), p.input.sizes());
    ASSERT_EQ(gradients.weight.sizes(), p.weight.sizes());
    if (p.input.numel() > 0)
      p.expect_close(gradients.input, p.exact.input_gradient, p.magnitude.input_gradient, kernel);
    p.expect_close(gradients.weight, p.exact.weight_gradient, p.magnitude.weight_gradient, kernel);
  });
}

/// Only FP32 is ever cut up. Two samples at a time: a whole number of parts, and one over.
TEST(ConvolutionParts, ComputeAndDifferentiateEveryGeometryAsTheWholeDoes) {
  for_each_problem([](const Problem& p, ConvolutionKernel kernel) {
    if (p.precision != Precision::Fp32 || p.input.size(0) == 0) return;
    const at::Tensor y = convolution_forward_in_parts(
        p.input, {p.weight, p.geometry, p.precision, kernel}, at::kFloat, /*samples=*/2);
    const LayerGradients gradients = convolution_backward_in_parts(
        p.output_gradient, p.input, {p.weight, p.geometry, p.precision, kernel}, {}, /*samples=*/2);
    p.expect_close(y, p.exact.output, p.magnitude.output, kernel);
    p.expect_close(gradients.input, p.exact.input_gradient, p.magnitude.input_gradient, kernel);
    p.expect_close(gradients.weight, p.exact.weight_gradient, p.magnitude.weight_gradient, kernel);
    const at::Tensor low = convolution_forward_in_parts(
        p.input, {p.weight, p.geometry, p.precision, kernel}, at::kBFloat16, /*samples=*/1);
    EXPECT_EQ(low.scalar_type(), at::kBFloat16);
    EXPECT_EQ(low.sizes(), y.sizes());
    const LayerGradients of_weight = convolution_backward_in_parts(
        p.output_gradient, p.input, {p.weight, p.geometry, p.precision, kernel},
        {.want_input = false, .weight = at::kBFloat16}, /*samples=*/1);
    EXPECT_FALSE(of_weight.input.defined());
    EXPECT_EQ(of_weight.weight.scalar_type(), at::kBFloat16);
  });
}

TEST(ConvolutionParts, AreAllOfThemOnACpu) {
  const Problem p(cases()[2], Precision::Fp32, true);
  EXPECT_EQ(samples_at_a_time(p.input, {p.weight, p.geometry, p.precision, {}}), p.input.size(0));
}

TEST(Convolution, LeavesTheInputGradientOutWhenNobodyAsks) {
  const Problem p(cases()[0], Precision::Bf16, true);
  for (const ConvolutionKernel& kernel : kernel_candidates(p.precision, p.geometry, at::kCPU))
    EXPECT_FALSE(convolution_backward(p.output_gradient, p.input,
                                      {p.weight, p.geometry, p.precision, kernel},
                                      {.want_input = false})
                     .input.defined());
}

TEST(Convolution, GivesTapsThatOnlyMeetPaddingGradientsOfExactlyZero) {
  const ConvolutionCase one_pixel{
      "", {4, 64, 1, 1}, {48, 64, 3, 3}, geometry({1, 1}, {1, 1}, {1, 1})};
  const Problem p(one_pixel, Precision::Bf16, true);
  for (const ConvolutionKernel& kernel : kernel_candidates(p.precision, p.geometry, at::kCPU)) {
    at::Tensor weight = convolution_backward(p.output_gradient, p.input,
                                             {p.weight, p.geometry, p.precision, kernel}, {})
                            .weight.clone();
    EXPECT_TRUE(weight.select(2, 1).select(2, 1).ne(0).all().item<bool>());
    weight.select(2, 1).select(2, 1).zero_();
    EXPECT_TRUE(weight.eq(0).all().item<bool>());
  }
}

TEST(Convolution, IgnoresWeightsThatOnlyMeetPaddingEvenWhenTheyAreNotNumbers) {
  const ConvolutionCase one_pixel{
      "", {4, 64, 1, 1}, {48, 64, 3, 3}, geometry({1, 1}, {1, 1}, {1, 1})};
  const Problem p(one_pixel, Precision::Fp32, false);
  const at::Tensor broken = at::full_like(p.weight, std::numeric_limits<float>::quiet_NaN());
  broken.select(2, 1).select(2, 1).copy_(p.weight.select(2, 1).select(2, 1));
  for (const ConvolutionKernel& kernel : kernel_candidates(p.precision, p.geometry, at::kCPU))
    p.expect_close(
        convolution_forward(p.input, {broken, p.geometry, p.precision, kernel}, at::kFloat),
        p.exact.output, p.magnitude.output, kernel);
}

TEST(Convolution, KeepsChannelsLast) {
  for (const ConvolutionCase& c : {cases()[2], cases()[4]}) {
    const Problem p(c, Precision::Bf16, true);
    for (const ConvolutionKernel& kernel : kernel_candidates(p.precision, p.geometry, at::kCPU)) {
      const at::Tensor y =
          convolution_forward(p.input, {p.weight, p.geometry, p.precision, kernel}, at::kBFloat16);
      const LayerGradients gradients = convolution_backward(
          p.output_gradient, p.input, {p.weight, p.geometry, p.precision, kernel}, {});
      for (const at::Tensor& t : {y, gradients.input, gradients.weight})
        EXPECT_TRUE(t.is_contiguous(at::MemoryFormat::ChannelsLast)) << name_of(kernel);
    }
  }
}

TEST(GemmConvolution, SumsPiecesOfThePatchesInBoundedMemory) {
  install_cpu_memory();
  const ConvolutionCase large{
      "", {24, 32, 32, 32}, {8, 32, 5, 5}, geometry({1, 1}, {2, 2}, {1, 1})};
  const std::int64_t all_patches = 24 * 32 * 32 * 25 * 32 * 4;
  const Problem p(large, Precision::Fp32, true);
  const ConvolutionKernel gemm{ConvolutionAlgorithm::Gemm, Arithmetic::Native};
  reset_cpu_memory_peak();
  const std::int64_t before = read_cpu_memory().used;
  const at::Tensor y =
      convolution_forward(p.input, {p.weight, p.geometry, p.precision, gemm}, at::kFloat);
  const LayerGradients gradients = convolution_backward(
      p.output_gradient, p.input, {p.weight, p.geometry, p.precision, gemm}, {});
  const std::int64_t most = read_cpu_memory().peak - before;
  EXPECT_LT(most, (std::int64_t{8} << 20) + 4 * p.input.numel() * 4);
  EXPECT_GT(all_patches, 4 * most);
  p.expect_close(y, p.exact.output, p.magnitude.output, gemm);
  p.expect_close(gradients.input, p.exact.input_gradient, p.magnitude.input_gradient, gemm);
  p.expect_close(gradients.weight, p.exact.weight_gradient, p.magnitude.weight_gradient, gemm);
}

TEST(GemmConvolution, NeedsNoPatchesWhereTheMapIsTheMatrix) {
  const auto needs_none = [](const Sizes& input, const Sizes& weight, ConvolutionGeometry g) {
    return gemm_needs_no_patches(at::empty(input), at::empty(weight), g);
  };
  const ConvolutionGeometry plain = geometry({1, 1}, {0, 0}, {1, 1});
  EXPECT_TRUE(needs_none({2, 3, 4, 5}, {6, 3, 1, 1}, plain));
  EXPECT_TRUE(needs_none({2, 3, 4, 5}, {6, 3, 4, 5}, plain));
  EXPECT_TRUE(needs_none({2, 3, 4, 5}, {6, 3, 1, 5}, plain));
  EXPECT_FALSE(needs_none({2, 3, 4, 5}, {6, 3, 4, 1}, plain));
  EXPECT_FALSE(needs_none({2, 3, 4, 5}, {6, 3, 1, 1}, geometry({2, 2}, {0, 0}, {1, 1})));
  EXPECT_FALSE(needs_none({2, 3, 4, 5}, {6, 3, 1, 1}, geometry({1, 1}, {1, 1}, {1, 1})));
}

}  // namespace
}  // namespace triaccel
