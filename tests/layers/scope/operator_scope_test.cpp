#include "triaccel/layers/scope/operator_scope.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <map>
#include <set>
#include <string>

#include "triaccel/models/model_zoo.h"

namespace triaccel {
namespace {

/// Counts what passes through it and computes what libtorch computes.
class Counter final : public OperatorHooks {
 public:
  explicit Counter(const torch::nn::Module& module) {
    for (const at::Tensor& parameter : module.parameters())
      weights_.insert(parameter.const_data_ptr());
  }
  at::Tensor convolution(const ConvolutionCall& call) override {
    ++calls["convolution"];
    return OperatorHooks::convolution(call);
  }
  at::Tensor linear(const LinearCall& call) override {
    ++calls["linear"];
    return OperatorHooks::linear(call);
  }
  at::Tensor batch_norm(const BatchNormCall& call) override {
    ++calls["batch_norm"];
    return OperatorHooks::batch_norm(call);
  }
  at::Tensor embedding(const at::Tensor& weight, const at::Tensor& indices, std::int64_t padding,
                       bool by_frequency, bool sparse) override {
    ++calls["embedding"];
    return OperatorHooks::embedding(weight, indices, padding, by_frequency, sparse);
  }
  bool count_up(const at::Tensor& counter) override {
    ++calls["count_up"];
    return OperatorHooks::count_up(counter);
  }
  bool owns(const at::Tensor& matrix) const override {
    return weights_.contains(matrix.const_data_ptr());
  }

  std::map<std::string, int> calls;

 private:
  std::set<const void*> weights_;
};

TEST(OperatorScope, SeesCountersGoUpFromPythonToo) {
  Counter counter(*torch::nn::Linear(1, 1));
  const at::Tensor batches = at::zeros({}, at::kLong);
  at::Tensor one = at::ones({}, at::kLong), two = at::full({}, 2, at::kLong);
  for (const at::Tensor& number : {one, two})
    number.unsafeGetTensorImpl()->set_wrapped_number(true);
  {
    const OperatorScope scope(counter);
    batches.add_(1);    // as C++ says it
    batches.add_(one);  // as Python says it
    EXPECT_EQ(counter.calls["count_up"], 2);
    batches.add_(two);
    batches.add_(at::ones({}, at::kLong));  // some tensor that happens to be 1
  }
  EXPECT_EQ(counter.calls["count_up"], 2);
  EXPECT_EQ(batches.item<std::int64_t>(), 5);
}

TEST(OperatorScope, SeesEveryLayerOfAResidualNetwork) {
  const Network network = make_model({.name = "resnet18", .width = 8});
  network.module->eval();
  Counter counter(*network.module);
  const at::Tensor images = at::randn({2, 3, 32, 32});
  const at::Tensor plain = network.forward(images);
  at::Tensor seen;
  {
    const OperatorScope scope(counter);
    seen = network.forward(images);
  }
  EXPECT_EQ(counter.calls["convolution"], 20);
  EXPECT_EQ(counter.calls["batch_norm"], 20);
  EXPECT_EQ(counter.calls["linear"], 1);
  EXPECT_TRUE(at::equal(plain, seen));
}

TEST(OperatorScope, SeesTheProductsAndTheTableOfATransformer) {
  const Network network = make_model({.name = "gpt-small", .width = 64, .context_length = 8});
  network.module->eval();
  Counter counter(*network.module);
  const at::Tensor tokens = at::randint(256, {2, 8}, at::kLong);
  const at::Tensor plain = network.forward(tokens);
  {
    const OperatorScope scope(counter);
    EXPECT_TRUE(at::equal(plain, network.forward(tokens)));
  }
  std::int64_t weights = 0;
  for (const LayerInfo& layer : network.layers.layers()) weights += layer.kind == LayerKind::Linear;
  EXPECT_EQ(counter.calls["linear"], weights);
  EXPECT_GE(counter.calls["embedding"], 1);
}

TEST(OperatorScope, EndsWithItsBlock) {
  torch::nn::Linear layer(4, 4);
  Counter counter(*layer);
  { const OperatorScope scope(counter); }
  layer(at::ones({2, 4}));
  EXPECT_EQ(counter.calls["linear"], 0);
}

TEST(OperatorScope, IsOfOneThreadOnlyAndNests) {
  torch::nn::Linear layer(4, 4);
  Counter outer(*layer), inner(*layer);
  const OperatorScope scope(outer);
  {
    const OperatorScope second(inner);
    layer(at::ones({2, 4}));
  }
  layer(at::ones({2, 4}));
  std::thread([&] { layer(at::ones({2, 4})); }).join();
  EXPECT_EQ(inner.calls["linear"], 1);
  EXPECT_EQ(outer.calls["linear"], 1);
}

TEST(OperatorScope, BringsOperandsOfDifferentTypesTogether) {
  torch::nn::LSTM recurrent(torch::nn::LSTMOptions(4, 4));
  torch::nn::LayerNorm norm(torch::nn::LayerNormOptions({4}));
  Counter counter(*recurrent);
  const OperatorScope scope(counter);
  const at::Tensor low = at::randn({3, 2, 4}).to(at::kBFloat16);
  EXPECT_EQ(std::get<0>(recurrent(low)).scalar_type(), at::kFloat);
  EXPECT_EQ(norm(low).scalar_type(), at::kBFloat16);
  EXPECT_EQ(at::bmm(low, at::randn({3, 4, 2})).scalar_type(), at::kFloat);
  const at::Tensor image = at::rand({1, 1, 4, 4}), grid = at::rand({1, 2, 2, 2}).to(at::kBFloat16);
  EXPECT_EQ(at::grid_sampler(image, grid, 0, 0, false).scalar_type(), at::kFloat);
  const at::Tensor few = at::ones({3}).to(at::kBFloat16), rows = at::arange(3);
  EXPECT_EQ(at::zeros({3}).scatter_add(0, rows, few).sum().item<float>(), 3);
  EXPECT_EQ(at::lerp(at::zeros({3}), few, 0.5).scalar_type(), at::kFloat);
  at::Tensor sums = at::zeros({3}), low_sums = few.clone();
  sums.index_add_(0, rows, few);
  sums.index_put_({rows}, few + 1, /*accumulate=*/true);
  low_sums.scatter_add_(0, rows, at::ones({3}));
  EXPECT_EQ(sums.sum().item<float>(), 9);
  EXPECT_EQ(low_sums.scalar_type(), at::kBFloat16);
  EXPECT_EQ(low_sums.sum().item<float>(), 6);
}

TEST(OperatorScope, DifferentiatesWhatItBroughtTogether) {
  torch::nn::Linear layer(2, 2);
  Counter counter(*layer);
  at::Tensor low = at::ones({3}).to(at::kBFloat16).requires_grad_();
  at::Tensor sums = at::zeros({3});
  const OperatorScope scope(counter);
  sums.index_add_(0, at::arange(3), low * 2);
  sums.sum().backward();
  EXPECT_EQ(low.grad().scalar_type(), at::kBFloat16);
  EXPECT_EQ(low.grad().sum().item<float>(), 6);
}

TEST(OperatorScope, LeavesGradientsToAutograd) {
  torch::nn::Conv2d layer(torch::nn::Conv2dOptions(3, 4, 3).padding(1));
  Counter counter(*layer);
  at::Tensor image = at::randn({3, 8, 8}).requires_grad_();  // without a batch dimension
  {
    const OperatorScope scope(counter);
    layer(image).sum().backward();
  }
  EXPECT_TRUE(layer->weight.grad().defined());
  EXPECT_TRUE(image.grad().defined());
}

}  // namespace
}  // namespace triaccel
