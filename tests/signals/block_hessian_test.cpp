#include "triaccel/signals/block_hessian.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>

#include "tests/signals/probe_case.h"

namespace triaccel {
namespace {

namespace nn = torch::nn;

constexpr CurvatureOptions kExact{
    .mode = CurvatureMode::Hessian, .most_iterations = 200, .tolerance = 1e-5};

struct Normalised : nn::Module {
  at::Tensor forward(const at::Tensor& x) { return head(torch::tanh(norm(conv(x))).flatten(1)); }
  /// The same function with its statistics as constants, by libtorch's own means.
  at::Tensor forward_frozen(const at::Tensor& x) {
    const torch::NoGradGuard no_grad;
    const at::Tensor before = conv(x);
    norm->running_mean.copy_(before.mean({0, 2, 3}));
    norm->running_var.copy_(before.var({0, 2, 3}, /*unbiased=*/false));
    norm->eval();
    const torch::AutoGradMode with_graph(true);
    return forward(x);
  }
  nn::Conv2d conv = register_module("conv", nn::Conv2d(nn::Conv2dOptions(2, 3, 3).padding(1)));
  nn::BatchNorm2d norm = register_module("norm", nn::BatchNorm2d(3));
  nn::Linear head = register_module("head", nn::Linear(3 * 4 * 4, 3));
};

ProbeCase<Normalised> normalised() {
  torch::manual_seed(5);
  return {std::make_shared<Normalised>(), torch::randn({6, 2, 4, 4}),
          torch::randint(3, {6}, torch::kInt64)};
}

/// The `count` eigenvalues of largest magnitude of an explicitly formed block, descending.
at::Tensor explicit_eigenvalues(const at::Tensor& loss, const std::vector<at::Tensor>& block,
                                std::int64_t count) {
  const at::Tensor gradient = gradient_row(loss, block, /*create_graph=*/true);
  std::vector<at::Tensor> rows;
  for (std::int64_t i = 0; i < gradient.numel(); ++i)
    rows.push_back(gradient_row(gradient[i], block));
  const at::Tensor all = at::linalg_eigvalsh(at::stack(rows).to(at::kDouble));
  const at::Tensor largest = std::get<1>(all.abs().topk(count));
  return std::get<0>(all.index_select(0, largest).sort(-1, /*descending=*/true));
}

TEST(BlockHessian, EqualsTheExplicitBlocksWithFrozenStatistics) {
  for (const bool whole_layer : {false, true}) {
    const ProbeCase<Normalised> each = normalised();
    CurvatureOptions options = kExact;
    options.whole_layer = whole_layer;
    const CurvatureReport report = each.run(options);
    const at::Tensor loss = each.loss(each.module->forward_frozen(each.inputs), each.targets);
    for (std::size_t l = 0; l < 2; ++l) {
      std::vector<at::Tensor> block;
      for (const ParameterRef& parameter : each.network.parameters)
        if (parameter.layer == static_cast<std::int64_t>(l) &&
            (whole_layer || parameter.tensor.is_same(each.network.weights[l])))
          block.push_back(parameter.tensor);
      EXPECT_EQ(block.size(), whole_layer ? (l == 0 ? 4u : 2u) : 1u);
      expect_close(report.layers[l].eigenvalues, explicit_eigenvalues(loss, block, 5), 1e-3,
                   "layer " + std::to_string(l));
    }
  }
}

TEST(BlockHessian, FisherSeesTheSameFrozenStatistics) {
  const ProbeCase<Normalised> each = normalised();
  const CurvatureReport report = each.run({});
  const at::Tensor logits = each.module->forward_frozen(each.inputs);
  for (std::size_t l = 0; l < 2; ++l) {
    std::vector<at::Tensor> rows;
    for (std::int64_t i = 0; i < 6; ++i)
      rows.push_back(
          gradient_row(each.loss(logits[i], each.targets[i]), {each.network.weights[l]}));
    const at::Tensor g = at::stack(rows).to(at::kDouble);
    const at::Tensor fisher = at::linalg_eigvalsh(g.mm(g.t()) / 6).flip(0).narrow(0, 0, 5);
    expect_close(report.layers[l].eigenvalues, fisher, 1e-4, "layer " + std::to_string(l));
  }
}

/// Two classes, the first's logit a square: where that class is right, the loss bends down.
struct Square : nn::Module {
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor z = inner(x);
    return torch::cat({z.square().sum(1, true), torch::zeros({x.size(0), 1})}, 1);
  }
  nn::Linear inner = register_module("inner", nn::Linear(nn::LinearOptions(4, 2).bias(false)));
};

TEST(BlockHessian, FindsANegativeDominantEigenvalue) {
  torch::manual_seed(6);
  const ProbeCase<Square> square(std::make_shared<Square>(), torch::randn({8, 4}),
                                 torch::zeros({8}, torch::kInt64));
  {
    const torch::NoGradGuard no_grad;
    square.module->inner->weight.mul_(0.1);
  }
  const CurvatureReport report = square.run(kExact);
  const at::Tensor expected =
      explicit_eigenvalues(square.loss(square.module->forward(square.inputs), square.targets),
                           square.network.weights, 5);
  expect_close(report.layers[0].eigenvalues, expected, 1e-3, "square");
  EXPECT_LT(report.layers[0].eigenvalues.back(), 0);
  EXPECT_EQ(report.negative, 1);
}

TEST(BlockHessian, HandlesABlockSmallerThanTheSubspaceAndAFlatOne) {
  torch::manual_seed(7);
  auto small = std::make_shared<nn::LinearImpl>(nn::LinearOptions(1, 3).bias(false));
  const ProbeCase<nn::LinearImpl> tiny(small, torch::randn({6, 1}),
                                       torch::randint(3, {6}, torch::kInt64));
  const at::Tensor expected = explicit_eigenvalues(
      tiny.loss(small->forward(tiny.inputs), tiny.targets), {small->weight}, 3);
  expect_close(tiny.run(kExact).layers[0].eigenvalues, expected, 1e-3, "small");
  const ProbeCase<nn::LinearImpl> flat(small, torch::zeros({6, 1}),
                                       torch::randint(3, {6}, torch::kInt64));
  EXPECT_EQ(flat.run(kExact).layers[0].eigenvalues, std::vector<double>(3, 0.0));
}

TEST(BlockHessian, StartsWhereTheLastProbeEnded) {
  const ProbeCase<Normalised> each = normalised();
  CurvatureOptions options = kExact;
  options.tolerance = 1e-4;
  CurvatureProbe probe(each.network, options, at::kCPU);
  probe.run(each.inputs, each.targets, 0, 0);
  const std::int64_t cold = probe.iterations();
  CurvatureProbe resumed(each.network, options, at::kCPU);
  StateMap saved;
  for (const StateView& view : probe.state()) saved[view.name] = view;
  resumed.restore(saved);
  const CurvatureReport again = probe.run(each.inputs, each.targets, 0, 200);
  EXPECT_LT(probe.iterations(), cold / 2);
  EXPECT_EQ(resumed.run(each.inputs, each.targets, 0, 200).layers, again.layers);
}

}  // namespace
}  // namespace triaccel
