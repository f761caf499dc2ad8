#include "triaccel/layers/convolution/kept_map.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>
#include <vector>

#include "triaccel/layers/execution/layer_execution.h"

namespace triaccel {
namespace {

namespace nn = torch::nn;

/// What stands between two convolutions.
struct Between {
  std::string name;
  std::function<at::Tensor(nn::BatchNorm2d&, const at::Tensor&)> forward;
  bool recomputed = true;
};

struct Pass {
  bool kept = false;  // the second convolution's input
  std::vector<at::Tensor> gradients = {};
};

Pass pass_through(const Between& between, Precision precision, bool recompute) {
  torch::manual_seed(5);
  nn::Conv2d first(nn::Conv2dOptions(3, 8, 3).bias(false)),
      second(nn::Conv2dOptions(8, 4, 3).bias(false));
  nn::BatchNorm2d norm(8);
  std::vector<at::Tensor> weights = {first->weight, second->weight};
  for (at::Tensor& weight : weights)
    weight.set_data(weight.contiguous(at::MemoryFormat::ChannelsLast));
  LayerExecution execution(weights, {}, {}, {.fuse = true, .recompute_norms = recompute});
  execution.follow({2, LayerPlan{.compute = precision}}, 1);
  const at::Tensor images = at::randn({4, 3, 9, 9}).contiguous(at::MemoryFormat::ChannelsLast);
  c10::weak_intrusive_ptr<c10::TensorImpl> seen{at::Tensor().getIntrusivePtr()};
  at::Tensor output;
  {
    const OperatorScope scope(execution);
    execution.begin_pass();
    at::Tensor input = between.forward(norm, first(images));
    seen = c10::weak_intrusive_ptr<c10::TensorImpl>(input.getIntrusivePtr());
    output = second(input);
    execution.end_pass();
  }
  Pass pass{.kept = !seen.expired()};
  output.to(at::kFloat).square().sum().backward();
  for (const at::Tensor& parameter :
       {first->weight, second->weight, norm->weight, norm->bias, norm->running_mean})
    pass.gradients.push_back(parameter.requires_grad() ? parameter.grad() : parameter);
  return pass;
}

const std::vector<Between> kBetween = {
    {"norm alone", [](auto& norm, auto& x) { return norm(x); }},
    {"ReLU", [](auto& norm, auto& x) { return at::relu(norm(x)); }},
    {"in-place ReLU", [](auto& norm, auto& x) { return norm(x).relu_(); }},
    {"SiLU", [](auto& norm, auto& x) { return at::silu(norm(x)); }},
    {"a residual", [](auto& norm, auto& x) { return at::relu(norm(x) + x); }, false},
    {"a factor a sample",
     [](auto& norm, auto& x) {
       return norm(x) * at::full({4, 1, 1, 1}, 1.25, x.options());
     },
     false},
    {"written to afterwards", [](auto& norm, auto& x) { return at::relu(norm(x)).mul_(2); }, false},
    {"no norm", [](auto&, auto& x) { return at::relu(x); }, false},
};

TEST(KeptMap, IsComputedAgainWithTheSameBits) {
  for (const Between& between : kBetween)
    for (const Precision precision : {Precision::Fp32, Precision::Bf16}) {
      const Pass kept = pass_through(between, precision, false);
      const Pass again = pass_through(between, precision, true);
      EXPECT_TRUE(kept.kept) << between.name;
      EXPECT_EQ(again.kept, !between.recomputed) << between.name;
      for (std::size_t i = 0; i < kept.gradients.size(); ++i) {
        ASSERT_EQ(again.gradients[i].defined(), kept.gradients[i].defined()) << between.name;
        const bool same =
            !kept.gradients[i].defined() || at::equal(again.gradients[i], kept.gradients[i]);
        EXPECT_TRUE(same) << between.name << " " << i;
      }
    }
}

}  // namespace
}  // namespace triaccel
