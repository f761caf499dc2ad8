#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <string>

#include "triaccel/device/device_choice.h"
#include "triaccel/layers/execution/layer_execution.h"
#include "triaccel/ops/update/layer_scales.h"

namespace triaccel {
namespace {

namespace nn = torch::nn;
const c10::Device kGpu(c10::kCUDA, 0);

/// One stretch of a network: what stands in for libtorch's operators must give what they give.
struct Stretch {
  std::string name;
  std::vector<std::int64_t> input;
  std::function<nn::Sequential()> make;  // its weights
  std::function<at::Tensor(nn::Sequential&, const at::Tensor&)> forward;
  bool input_gradient = true;
};

at::Tensor in_order(nn::Sequential& layers, const at::Tensor& x) { return layers->forward(x); }

nn::Conv2d convolution(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride,
                       std::int64_t groups = 1, bool bias = false) {
  return nn::Conv2d(nn::Conv2dOptions(in, out, kernel)
                        .stride(stride)
                        .padding(kernel / 2)
                        .groups(groups)
                        .bias(bias));
}

at::Tensor conv(nn::Sequential& layers, std::size_t i, const at::Tensor& x) {
  return layers[i]->as<nn::Conv2d>()->forward(x);
}
at::Tensor norm(nn::Sequential& layers, std::size_t i, const at::Tensor& x) {
  return layers[i]->as<nn::BatchNorm2d>()->forward(x);
}

/// Squeeze-and-excitation around a depthwise convolution, as in EfficientNet.
at::Tensor squeeze_excite(nn::Sequential& layers, const at::Tensor& x) {
  const at::Tensor y = at::silu(norm(layers, 1, conv(layers, 0, x)));
  const at::Tensor mean = at::adaptive_avg_pool2d(y, {1, 1});
  return at::sigmoid(conv(layers, 3, at::silu(conv(layers, 2, mean)))) * y;
}

/// A residual block with a shortcut of its own.
at::Tensor residual(nn::Sequential& layers, const at::Tensor& x) {
  const at::Tensor first = norm(layers, 1, conv(layers, 0, x)).relu_();
  at::Tensor out = norm(layers, 3, conv(layers, 2, first));
  out += norm(layers, 5, conv(layers, 4, first));
  return out.relu_();
}

/// A residual block that is left out for every third sample.
at::Tensor stochastic_depth(nn::Sequential& layers, const at::Tensor& x) {
  const at::Tensor first = norm(layers, 1, conv(layers, 0, x)).relu_();
  const at::Tensor branch = norm(layers, 3, conv(layers, 2, first));
  const at::Tensor numbers = at::arange(x.size(0), x.options().dtype(at::kLong));
  const at::Tensor kept = (numbers % 3).ne(0).to(branch.scalar_type()).view({-1, 1, 1, 1});
  at::Tensor out = branch * (kept / 0.75);
  out += first;
  at::Tensor again = norm(layers, 5, conv(layers, 4, out)) * kept;
  again += out;
  return again;
}

const std::vector<Stretch> kStretches = {
    {"stem of seven taps",
     {5, 3, 32, 32},
     [] { return nn::Sequential(convolution(3, 16, 7, 2), nn::BatchNorm2d(16), nn::ReLU()); },
     in_order,
     false},
    {"stem of three taps and one channel",
     {5, 1, 9, 9},
     [] { return nn::Sequential(convolution(1, 8, 3, 1), nn::BatchNorm2d(8), nn::SiLU()); },
     in_order,
     false},
    {"stem of filters that only libtorch takes",
     {5, 3, 16, 16},
     [] { return nn::Sequential(convolution(3, 12, 3, 1), nn::BatchNorm2d(12), nn::ReLU()); },
     in_order,
     false},
    {"small maps of many channels",
     {9, 64, 8, 8},
     [] {
       return nn::Sequential(convolution(64, 128, 3, 2), nn::BatchNorm2d(128), nn::ReLU(),
                             convolution(128, 128, 3, 1), nn::BatchNorm2d(128), nn::ReLU(),
                             convolution(128, 256, 3, 2), nn::BatchNorm2d(256), nn::ReLU(),
                             convolution(256, 256, 3, 1), nn::BatchNorm2d(256), nn::ReLU());
     },
     in_order},
    {"maps of two by two pixels in a large batch",
     {300, 64, 2, 2},
     [] {
       return nn::Sequential(convolution(64, 96, 3, 1), nn::BatchNorm2d(96), nn::ReLU(),
                             convolution(96, 64, 3, 1), nn::BatchNorm2d(64), nn::ReLU());
     },
     in_order},
    {"maps of two by one pixels in a large batch",
     {300, 64, 2, 1},
     [] {
       return nn::Sequential(convolution(64, 96, 3, 1), nn::BatchNorm2d(96), nn::ReLU(),
                             convolution(96, 64, 5, 1), nn::BatchNorm2d(64), nn::ReLU());
     },
     in_order},
    {"max pooling",
     {3, 16, 11, 9},
     [] {
       return nn::Sequential(convolution(16, 16, 3, 1), nn::BatchNorm2d(16), nn::ReLU(),
                             nn::MaxPool2d(nn::MaxPool2dOptions(3).stride(2).padding(1)));
     },
     in_order},
    {"max pooling before a residual block",
     {3, 16, 11, 9},
     [] {
       return nn::Sequential(convolution(16, 16, 3, 1), nn::BatchNorm2d(16),
                             convolution(16, 16, 3, 1), nn::BatchNorm2d(16));
     },
     [](nn::Sequential& layers, const at::Tensor& x) {
       const at::Tensor first = norm(layers, 1, conv(layers, 0, x)).relu_();
       const at::Tensor pooled = at::max_pool2d(first, 3, 2, 1);
       at::Tensor out = norm(layers, 3, conv(layers, 2, pooled));
       out += pooled;
       return out.relu_();
     }},
    {"depthwise convolution whose gradient has channels first",
     {4, 24, 7, 7},
     [] { return nn::Sequential(convolution(24, 24, 3, 1, 24)); },
     in_order},
    {"half of the channels of a depthwise convolution",
     {4, 24, 7, 7},
     [] { return nn::Sequential(convolution(24, 24, 3, 1, 24)); },
     [](nn::Sequential& layers, const at::Tensor& x) {
       return conv(layers, 0, x).slice(/*dim=*/1, 0, 12).tanh();
     }},
    {"squeeze and excitation",
     {4, 24, 7, 7},
     [] {
       return nn::Sequential(convolution(24, 24, 3, 1, 24), nn::BatchNorm2d(24),
                             convolution(24, 6, 1, 1, 1, true), convolution(6, 24, 1, 1, 1, true));
     },
     squeeze_excite},
    {"squeeze and excitation on single pixels",
     {6, 16, 1, 1},
     [] {
       return nn::Sequential(convolution(16, 16, 5, 1, 16), nn::BatchNorm2d(16),
                             convolution(16, 4, 1, 1, 1, true), convolution(4, 16, 1, 1, 1, true));
     },
     squeeze_excite},
    {"squeeze and excitation of many channels",
     {9, 1151, 3, 3},
     [] {
       return nn::Sequential(convolution(1151, 1151, 3, 1, 1151), nn::BatchNorm2d(1151),
                             convolution(1151, 47, 1, 1, 1, true),
                             convolution(47, 1151, 1, 1, 1, true));
     },
     squeeze_excite},
    {"gates by another activation and hidden numbers used again",
     {4, 24, 7, 7},
     [] {
       return nn::Sequential(convolution(24, 24, 3, 1, 24), nn::BatchNorm2d(24),
                             convolution(24, 6, 1, 1, 1, true), convolution(6, 24, 1, 1, 1, true));
     },
     [](nn::Sequential& layers, const at::Tensor& x) {
       const at::Tensor y = at::silu(norm(layers, 1, conv(layers, 0, x)));
       const at::Tensor hidden = conv(layers, 2, at::adaptive_avg_pool2d(y, {1, 1}));
       return at::sigmoid(conv(layers, 3, at::relu(hidden))) * y + at::silu(hidden).sum();
     }},
    {"strided depthwise convolution",
     {4, 32, 13, 10},
     [] { return nn::Sequential(convolution(32, 32, 5, 2, 32), nn::BatchNorm2d(32), nn::SiLU()); },
     in_order},
    {"residual block",
     {4, 16, 6, 6},
     [] {
       return nn::Sequential(convolution(16, 24, 3, 1), nn::BatchNorm2d(24),
                             convolution(24, 24, 3, 1), nn::BatchNorm2d(24),
                             convolution(24, 24, 1, 1), nn::BatchNorm2d(24));
     },
     residual},
    {"blocks of stochastic depth",
     {7, 16, 6, 6},
     [] {
       return nn::Sequential(convolution(16, 24, 3, 1), nn::BatchNorm2d(24),
                             convolution(24, 24, 3, 1), nn::BatchNorm2d(24),
                             convolution(24, 24, 1, 1), nn::BatchNorm2d(24));
     },
     stochastic_depth},
    {"blocks of stochastic depth on a large map",
     {50, 16, 42, 42},
     [] {
       return nn::Sequential(convolution(16, 24, 3, 1), nn::BatchNorm2d(24),
                             convolution(24, 24, 3, 1), nn::BatchNorm2d(24),
                             convolution(24, 24, 1, 1), nn::BatchNorm2d(24));
     },
     stochastic_depth},
    {"kernel larger than its map",
     {9, 64, 1, 1},
     [] { return nn::Sequential(convolution(64, 64, 3, 1), nn::BatchNorm2d(64), nn::ReLU()); },
     in_order},
    {"strided shortcut on a large map",
     {80, 32, 42, 42},
     [] { return nn::Sequential(convolution(32, 48, 1, 2), nn::BatchNorm2d(48), nn::ReLU()); },
     in_order},
    {"residual block with a strided shortcut on a large map",
     {80, 16, 42, 42},
     [] {
       return nn::Sequential(convolution(16, 32, 3, 1), nn::BatchNorm2d(32),
                             convolution(32, 48, 3, 2), nn::BatchNorm2d(48),
                             convolution(32, 48, 1, 2), nn::BatchNorm2d(48));
     },
     residual},
    {"strided convolution of one tap alone behind a norm",
     {80, 16, 43, 41},
     [] {
       return nn::Sequential(convolution(16, 32, 1, 1), nn::BatchNorm2d(32), nn::ReLU(),
                             convolution(32, 48, 1, 2), nn::BatchNorm2d(48), nn::ReLU());
     },
     in_order},
    {"convolution along one dimension",
     {6, 8, 20},
     [] {
       // No bias in front of a norm: its gradient would be nought, and all that is found rounding.
       return nn::Sequential(nn::Conv1d(nn::Conv1dOptions(8, 16, 1)), nn::ReLU(),
                             nn::Conv1d(nn::Conv1dOptions(16, 24, 1).bias(false)),
                             nn::BatchNorm1d(24), nn::ReLU());
     },
     in_order},
    {"means of two maps side by side",
     {4, 16, 5, 5},
     [] { return nn::Sequential(convolution(16, 16, 3, 1), convolution(16, 16, 1, 1)); },
     [](nn::Sequential& layers, const at::Tensor& x) {
       const at::Tensor a = conv(layers, 0, x), b = conv(layers, 1, x);
       return at::cat({at::adaptive_avg_pool2d(a, {1, 1}), at::adaptive_avg_pool2d(b, {1, 1})}, 1);
     }},
    {"two gates from one mean",
     {4, 16, 5, 5},
     [] {
       return nn::Sequential(convolution(16, 16, 3, 1), convolution(16, 16, 1, 1, 1, true),
                             convolution(16, 16, 1, 1, 1, true));
     },
     [](nn::Sequential& layers, const at::Tensor& x) {
       const at::Tensor y = conv(layers, 0, x), mean = at::adaptive_avg_pool2d(y, {1, 1});
       return y * at::sigmoid(conv(layers, 1, mean)) + y * at::tanh(conv(layers, 2, mean));
     }},
    {"linear layer with a bias",
     {10, 40},
     [] { return nn::Sequential(nn::Linear(40, 24), nn::SiLU(), nn::Linear(24, 7)); },
     in_order},
    {"linear layers of many and of few outputs on rows of three dimensions",
     {4, 9, 64},
     [] {
       return nn::Sequential(nn::Linear(64, 48), nn::SiLU(),
                             nn::Linear(nn::LinearOptions(48, 32).bias(false)), nn::SiLU(),
                             nn::Linear(32, 10));
     },
     in_order}};

/// Output, gradients and running statistics, in FP32.
std::vector<at::Tensor> everything_after(const Stretch& stretch, bool ours, Precision precision) {
  torch::manual_seed(4);
  nn::Sequential layers = stretch.make();
  layers->to(kGpu);
  std::vector<at::Tensor> weights;
  for (at::Tensor& parameter : layers->parameters()) {
    if (parameter.dim() == 4) {
      const at::NoGradGuard no_grad;
      parameter.set_data(parameter.contiguous(at::MemoryFormat::ChannelsLast));
    }
    if (parameter.dim() > 1) weights.push_back(parameter);
  }
  at::Tensor x = at::randn(stretch.input).to(kGpu);
  if (x.dim() == 4) x = x.contiguous(at::MemoryFormat::ChannelsLast);
  x.requires_grad_(stretch.input_gradient);
  const at::Tensor scales = make_layer_scales(kGpu, static_cast<std::int64_t>(weights.size()));
  LayerExecution execution(weights, {}, scales, {.fuse = true, .prepare_weights = true});
  execution.follow({weights.size(), LayerPlan{.compute = precision}}, 1);
  at::Tensor output;
  for (int pass = 0; pass < 2; ++pass) {  // the second finds its weights prepared
    for (at::Tensor& parameter : layers->parameters()) parameter.mutable_grad().reset();
    x.mutable_grad().reset();
    if (ours) {
      execution.begin_step(nullptr, nullptr);
      {
        const OperatorScope scope(execution);
        execution.begin_pass();
        output = stretch.forward(layers, x);
        execution.end_pass();
      }
    } else {
      output = stretch.forward(layers, x);
    }
    torch::manual_seed(5);
    const at::Tensor direction = at::randn(output.sizes()).to(kGpu);
    (output.to(at::kFloat) * direction).sum().backward();
    if (ours) execution.end_step();
  }
  std::vector<at::Tensor> all = {output.detach()};
  for (at::Tensor& parameter : layers->parameters()) all.push_back(parameter.grad());
  for (at::Tensor& buffer : layers->buffers()) all.push_back(buffer);
  if (stretch.input_gradient) all.push_back(x.grad());
  for (at::Tensor& tensor : all) tensor = tensor.to(at::kDouble).cpu();
  return all;
}

class GpuKernels : public testing::TestWithParam<Stretch> {
 protected:
  void SetUp() override {
    if (!at::hasCUDA()) GTEST_SKIP() << "this machine has no CUDA device";
    set_arithmetic(/*deterministic=*/true);
  }
};

/// Close in FP32; in BF16 rounding turns a few ReLU gates and maxima around.
TEST_P(GpuKernels, GiveWhatLibtorchGives) {
  for (const auto& [precision, tolerance] :
       {std::pair{Precision::Fp32, 2e-4}, {Precision::Bf16, 0.12}}) {
    const auto expected = everything_after(GetParam(), /*ours=*/false, Precision::Fp32);
    const auto found = everything_after(GetParam(), /*ours=*/true, precision);
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      ASSERT_EQ(found[i].sizes(), expected[i].sizes());
      const double error = (found[i] - expected[i]).norm().item<double>();
      EXPECT_LE(error, tolerance * expected[i].norm().item<double>() + 1e-6)
          << "tensor " << i << " in " << name_of(precision);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Stretches, GpuKernels, testing::ValuesIn(kStretches),
                         [](const auto& which) {
                           std::string name = which.param.name;
                           for (char& letter : name)
                             if (letter == ' ') letter = '_';
                           return name;
                         });

}  // namespace
}  // namespace triaccel
