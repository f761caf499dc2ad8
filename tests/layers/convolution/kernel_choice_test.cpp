#include "triaccel/layers/convolution/kernel_choice.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "triaccel/base/error.h"
#include "triaccel/device/cpu_memory.h"
#include "triaccel/layers/convolution/kernel_choice_measure.h"

namespace triaccel {
namespace {

constexpr ConvolutionKernel kGemm = {ConvolutionAlgorithm::Gemm, Arithmetic::Native};
constexpr ConvolutionKernel kGemmFp32 = {ConvolutionAlgorithm::Gemm, Arithmetic::Fp32};
constexpr ConvolutionKernel kStock = {ConvolutionAlgorithm::Stock, Arithmetic::Native};
constexpr ConvolutionKernel kStockFp32 = {ConvolutionAlgorithm::Stock, Arithmetic::Fp32};
constexpr LayerKernels kMixed = {.fp32 = kStock, .bf16 = kGemm, .fp16 = kGemmFp32};
constexpr LayerKernels kProducts = {.fp32 = kGemm, .bf16 = kGemm, .fp16 = kStockFp32};

const ConvolutionGeometry kPlain = {
    .stride = {1, 1}, .padding = {1, 1}, .dilation = {1, 1}, .output_padding = {0, 0}};

ConvolutionGeometry grouped() {
  ConvolutionGeometry geometry = kPlain;
  geometry.groups = 4;
  return geometry;
}

std::string complaint(std::string_view text, std::int64_t layers) {
  try {
    kernel_choices_from(text, layers);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(KernelChoices, AreWrittenWithEqualLayersTogether) {
  EXPECT_EQ(to_text({{kProducts, kMixed, kProducts, kProducts, kProducts}}),
            "0,2-4:fp32=gemm,bf16=gemm,fp16=stock/fp32;1:fp32=stock,bf16=gemm,fp16=gemm/fp32");
}

TEST(KernelChoices, AreReadAsTheyWereWritten) {
  KernelChoices choices;
  EXPECT_EQ(kernel_choices_from(to_text(choices), 0), choices);
  for (std::uint32_t i = 0; i < 40; ++i) {
    choices.layers.push_back((i * 2654435761u) >> 31 != 0 ? kMixed : kProducts);
    EXPECT_EQ(kernel_choices_from(to_text(choices), i + 1), choices);
  }
}

TEST(KernelChoices, SayWhatIsWrongWithAText) {
  const std::string good = "fp32=gemm,bf16=gemm,fp16=gemm";
  EXPECT_NE(complaint("0:" + good, 2).find("layer 1 of 2 has no kernels"), std::string::npos);
  EXPECT_NE(complaint("0-2:" + good, 2).find("layer 2 is named"), std::string::npos);
  EXPECT_NE(complaint("0,0:" + good, 1).find("layer 0 is named twice"), std::string::npos);
  EXPECT_NE(complaint("1-0:" + good, 2).find("'1-0' runs backwards"), std::string::npos);
  EXPECT_NE(complaint("x:" + good, 1).find("'x' is not the number"), std::string::npos);
  EXPECT_NE(complaint("99999999999999999999:" + good, 1).find("not the number"), std::string::npos);
  EXPECT_NE(complaint("-1:" + good, 1).find("'' is not the number"), std::string::npos);
  EXPECT_NE(complaint(good, 1).find("is not <layers>:<kernels>"), std::string::npos);
  EXPECT_NE(complaint("0:fp32=gemm,bf16=gemm", 1).find("no kernel for fp16"), std::string::npos);
  EXPECT_NE(complaint("0:fp8=gemm", 1).find("'fp8=gemm' is not"), std::string::npos);
  EXPECT_NE(complaint("0:fp32=gem", 1).find("did you mean 'gemm'"), std::string::npos);
}

TEST(KernelCandidates, AreAllFourForA16BitConvolutionOnTheCpu) {
  EXPECT_EQ(kernel_candidates(Precision::Bf16, kPlain, at::kCPU),
            (std::vector{kGemm, kGemmFp32, kStock, kStockFp32}));
  EXPECT_EQ(kernel_candidates(Precision::Fp32, kPlain, at::kCPU), (std::vector{kGemm, kStock}));
}

TEST(KernelCandidates, LeaveProductsOutForGroups) {
  EXPECT_EQ(kernel_candidates(Precision::Fp16, grouped(), at::kCPU),
            (std::vector{kStock, kStockFp32}));
}

TEST(FixedKernel, IsAProductWhereThereIsOneAndFp32OtherwiseOnTheCpu) {
  EXPECT_EQ(fixed_kernel(Precision::Fp32, kPlain, at::kCPU), kGemm);
  EXPECT_EQ(fixed_kernel(Precision::Fp32, grouped(), at::kCPU), kStock);
  EXPECT_EQ(fixed_kernel(Precision::Bf16, grouped(), at::kCPU), kStockFp32);
  EXPECT_EQ(fixed_kernel(Precision::Bf16, kPlain, at::kCPU).algorithm, ConvolutionAlgorithm::Gemm);
}

LayerShape convolution(std::int64_t channels, const ConvolutionGeometry& geometry) {
  return {.input = {4, channels, 6, 6},
          .weight = {8, channels / geometry.groups, 3, 3},
          .geometry = geometry};
}

std::vector<LayerShape> small_network() {
  ConvolutionGeometry transposed = kPlain;
  transposed.transposed = true;
  return {convolution(8, kPlain),
          convolution(8, grouped()),
          convolution(8, kPlain),
          {.input = {4, 8, 5, 5}, .weight = {8, 6, 3, 3}, .geometry = transposed},
          {.kind = LayerKind::Linear, .input = {4, 7, 16}, .weight = {10, 16}},
          {.kind = LayerKind::Embedding, .input = {4, 7}, .weight = {10, 16}}};
}

TEST(MeasuredKernels, AreAmongTheCandidatesOfEveryLayer) {
  const std::vector<LayerShape> layers = small_network();
  const KernelChoices choices = measure_kernels(layers, at::kCPU);
  ASSERT_EQ(choices.layers.size(), layers.size());
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (layers[i].kind != LayerKind::Convolution) continue;
    for (Precision precision : {Precision::Fp32, Precision::Bf16, Precision::Fp16}) {
      const auto candidates = kernel_candidates(precision, layers[i].geometry, at::kCPU);
      EXPECT_NE(std::ranges::find(candidates, choices.layers[i].of(precision)), candidates.end());
    }
  }
  EXPECT_EQ(choices.layers[2], choices.layers[0]);
  EXPECT_EQ(choices.layers[4].bf16.algorithm, ConvolutionAlgorithm::Stock);
  EXPECT_EQ(choices.layers[5], LayerKernels{});
  EXPECT_EQ(kernel_choices_from(to_text(choices), 6), choices);
}

TEST(MeasuredKernels, DrawNoRandomNumbers) {
  at::manual_seed(11);
  const at::Tensor expected = at::rand({4});
  at::manual_seed(11);
  measure_kernels(small_network(), at::kCPU);
  EXPECT_TRUE(at::equal(at::rand({4}), expected));
}

TEST(MeasuredKernels, AreTheFixedOnesWhenTimeIsUp) {
  const std::vector<LayerShape> layers = small_network();
  EXPECT_EQ(measure_kernels(layers, at::kCPU, {.most_seconds = 0}),
            fixed_kernels(layers, at::kCPU));
}

TEST(MeasuredKernels, AreTheFixedOnesWhenNothingCanBeRun) {
  install_cpu_memory();
  const std::vector<LayerShape> layers = small_network();
  fail_cpu_allocation(0, /*persistently=*/true);
  const KernelChoices choices = measure_kernels(layers, at::kCPU);
  fail_cpu_allocation(-1);
  EXPECT_EQ(choices, fixed_kernels(layers, at::kCPU));
}

}  // namespace
}  // namespace triaccel
