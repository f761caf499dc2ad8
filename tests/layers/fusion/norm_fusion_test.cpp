#include "triaccel/layers/fusion/norm_fusion.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <string>

#include "triaccel/layers/execution/layer_execution.h"

namespace triaccel {
namespace {

namespace nn = torch::nn;
using Norm = nn::BatchNorm2d;

/// What a module does with two norms and two maps.
struct Use {
  std::string name;
  std::function<at::Tensor(Norm&, Norm&, const at::Tensor&, const at::Tensor&)> forward;
};

at::Tensor channels_last(at::IntArrayRef shape) {
  return at::randn(shape).contiguous(at::MemoryFormat::ChannelsLast);
}

struct How {
  bool fused = false;
  bool training = true;
  std::int64_t channels = 5;  // of 4 a byte holds as many gates
  bool keep_relu_masks = false;
};

/// All that a pass leaves: output, gradients of maps and parameters, running statistics, counters.
std::vector<at::Tensor> everything_after(const Use& use, const How& how) {
  const auto& [fused, training, channels, keep_relu_masks] = how;
  torch::manual_seed(3);
  Norm first(channels), second(channels);
  first->train(training);
  second->train(training);
  for (Norm* norm : {&first, &second}) {
    nn::init::uniform_((*norm)->weight, 0.5, 1.5);
    nn::init::uniform_((*norm)->bias, -0.5, 0.5);
  }
  at::Tensor x = channels_last({4, channels, 3, 3}).requires_grad_();
  at::Tensor r = channels_last({4, channels, 3, 3}).requires_grad_();
  const at::Tensor weights = channels_last({4, channels, 3, 3});
  const at::AutoGradMode gradients(training);
  LayerExecution execution({}, {}, {}, {.fuse = fused, .keep_relu_masks = keep_relu_masks});
  at::Tensor output;
  if (fused) {
    const OperatorScope scope(execution);
    execution.begin_pass();
    output = use.forward(first, second, x, r);
    execution.end_pass();
  } else {
    output = use.forward(first, second, x, r);
  }
  if (training) (output * weights).sum().backward();
  std::vector<at::Tensor> all = {output.detach()};
  for (Norm* norm : {&first, &second}) {
    all.push_back((*norm)->running_mean);
    all.push_back((*norm)->running_var);
    all.push_back((*norm)->num_batches_tracked);
    all.push_back((*norm)->weight.grad());
    all.push_back((*norm)->bias.grad());
  }
  all.push_back(x.grad());
  all.push_back(r.grad());
  return all;
}

const std::vector<Use> kUses = {
    {"norm alone", [](Norm& a, Norm&, auto& x, auto&) { return a(x); }},
    {"in-place ReLU", [](Norm& a, Norm&, auto& x, auto&) { return a(x).relu_(); }},
    {"ReLU", [](Norm& a, Norm&, auto& x, auto&) { return at::relu(a(x)); }},
    {"SiLU", [](Norm& a, Norm&, auto& x, auto&) { return at::silu(a(x)); }},
    {"in-place SiLU",
     [](Norm& a, Norm&, auto& x, auto&) {
       at::Tensor y = a(x);
       return at::silu_(y);
     }},
    {"residual in place",
     [](Norm& a, Norm&, auto& x, auto& r) {
       at::Tensor y = a(x);
       y += r * 1;
       return y.relu_();
     }},
    {"residual", [](Norm& a, Norm&, auto& x, auto& r) { return at::relu(a(x) + r * 1); }},
    {"residual on the left",
     [](Norm& a, Norm&, auto& x, auto& r) { return (r * 1 + a(x)).relu_(); }},
    {"residual without activation", [](Norm& a, Norm&, auto& x, auto& r) { return a(x) + r; }},
    {"SiLU after a residual", [](Norm& a, Norm&, auto& x, auto& r) { return at::silu(a(x) + r); }},
    {"sum of two norms",
     [](Norm& a, Norm& b, auto& x, auto& r) {
       at::Tensor y = a(x);
       y += b(r);
       return y.relu_();
     }},
    {"sum of two norms, one of them used again",
     [](Norm& a, Norm& b, auto& x, auto& r) {
       const at::Tensor second = b(r);
       return at::relu(a(x) + second) + at::tanh(second);
     }},
    {"sum of two norms without activation",
     [](Norm& a, Norm& b, auto& x, auto& r) { return at::tanh(a(x) + b(r)); }},
    {"sum of two norms, used twice",
     [](Norm& a, Norm& b, auto& x, auto& r) {
       const at::Tensor sum = a(x) + b(r);
       return at::relu(sum) + at::tanh(sum);
     }},
    {"two additions", [](Norm& a, Norm&, auto& x, auto& r) { return (a(x) + r + r).relu_(); }},
    {"output used twice",
     [](Norm& a, Norm&, auto& x, auto&) {
       const at::Tensor y = a(x);
       return at::relu(y) + at::tanh(y);
     }},
    {"residual written afterwards",
     [](Norm& a, Norm&, auto& x, auto& r) {
       at::Tensor shared = r * 1;
       at::Tensor y = a(x) + shared;
       shared.mul_(3);
       return y.relu_() + shared;
     }},
    {"residual that is a norm's output",
     [](Norm& a, Norm& b, auto& x, auto& r) {
       const at::Tensor first = (a(x) + r).relu_();
       return (b(at::tanh(first)) + first).relu_();
     }},
    {"residual used twice",
     [](Norm& a, Norm& b, auto& x, auto& r) {
       const at::Tensor first = a(x).relu_();
       const at::Tensor second = (b(r * 1) + first).relu_();
       return (a(second) + first).relu_();
     }},
    {"residual of a norm, changed in place afterwards",
     [](Norm& a, Norm& b, auto& x, auto& r) {
       at::Tensor second = b(r);
       const at::Tensor sum = at::relu(a(x) + second);
       return sum + second.relu_();
     }},
    {"residual of a norm, changed in place before the sum is computed",
     [](Norm& a, Norm& b, auto& x, auto& r) {
       at::Tensor second = b(r);
       const at::Tensor sum = a(x) + second;
       second.relu_();
       return at::relu(sum) + second;
     }},
    {"residual of a norm, added to afterwards",
     [](Norm& a, Norm& b, auto& x, auto& r) {
       at::Tensor second = b(r);
       const at::Tensor sum = a(x) + second;
       second += x;
       return at::relu(sum) + second;
     }},
    {"norm of a norm", [](Norm& a, Norm& b, auto& x, auto&) { return b(a(x)).relu_(); }},
    {"output that nobody reads",
     [](Norm& a, Norm& b, auto& x, auto&) {
       (void)a(x);
       return b(x).relu_();
     }},
    {"view of the output",
     [](Norm& a, Norm&, auto& x, auto&) { return a(x).flatten(1).relu().view(x.sizes()); }},
};

/// What stochastic depth multiplies a batch of four with.
at::Tensor kept_samples() { return at::tensor({0.0f, 1.25f, 1.25f, 0.0f}).view({4, 1, 1, 1}); }

/// Not joined where all gates are kept: gradients of two readers then add up in another order.
const std::vector<Use> kUsesOfFactors = {
    {"factor", [](Norm& a, Norm&, auto& x, auto&) { return a(x) * kept_samples(); }},
    {"factor on the left", [](Norm& a, Norm&, auto& x, auto&) { return kept_samples() * a(x); }},
    {"factor in place",
     [](Norm& a, Norm&, auto& x, auto&) { return a(x).mul_(kept_samples()).relu_(); }},
    {"factor and residual in place",
     [](Norm& a, Norm&, auto& x, auto& r) {
       at::Tensor y = a(x) * kept_samples();
       y += r;
       return y;
     }},
    {"factor and residual on the left",
     [](Norm& a, Norm&, auto& x, auto& r) { return r + kept_samples() * a(x); }},
    {"factor, residual and ReLU",
     [](Norm& a, Norm&, auto& x, auto& r) { return at::relu(a(x) * kept_samples() + r); }},
    {"factor and ReLU",
     [](Norm& a, Norm&, auto& x, auto&) { return (a(x) * kept_samples()).relu_(); }},
    {"factor and SiLU",
     [](Norm& a, Norm&, auto& x, auto&) { return at::silu(a(x) * kept_samples()); }},
    {"two factors",
     [](Norm& a, Norm&, auto& x, auto& r) { return a(x) * kept_samples() * kept_samples() + r; }},
    {"factor after a residual",
     [](Norm& a, Norm&, auto& x, auto& r) { return (a(x) + r) * kept_samples(); }},
    {"factor with a gradient",
     [](Norm& a, Norm&, auto& x, auto& r) {
       return a(x) * r.mean({1, 2, 3}, true) + r;
     }},
    {"factor of another type",
     [](Norm& a, Norm&, auto& x, auto&) {
       return (a(x) * kept_samples().to(at::kDouble)).to(at::kFloat);
     }},
    {"factor a channel",
     [](Norm& a, Norm&, auto& x, auto& r) {
       return a(x) * r.detach().mean({2, 3}, true);
     }},
    {"norm and its own product",
     [](Norm& a, Norm&, auto& x, auto&) {
       const at::Tensor y = a(x);
       return y * kept_samples() + at::tanh(y);
     }},
    {"product used twice",
     [](Norm& a, Norm&, auto& x, auto& r) {
       const at::Tensor y = a(x) * kept_samples();
       return at::relu(y + r) + at::tanh(y);
     }},
    {"sum of two norms, the first with a factor",
     [](Norm& a, Norm& b, auto& x, auto& r) { return at::relu(a(x) * kept_samples() + b(r)); }},
    {"sum of two norms, both with factors",
     [](Norm& a, Norm& b, auto& x, auto& r) {
       return at::relu(a(x) * kept_samples() + b(r) * kept_samples());
     }},
    {"blocks of stochastic depth one after the other",
     [](Norm& a, Norm& b, auto& x, auto& r) {
       at::Tensor first = a(x) * kept_samples();
       first += r;
       at::Tensor second = b(at::tanh(first)) * kept_samples().flip(0);
       second += first;
       return second;
     }},
};

void expect_what_the_operators_give(const std::vector<Use>& uses) {
  for (const auto& [training, channels] :
       {std::pair<bool, std::int64_t>{true, 5}, {true, 8}, {false, 5}}) {
    for (const Use& use : uses) {
      const auto plain = everything_after(use, {.training = training, .channels = channels});
      const auto fused =
          everything_after(use, {.fused = true, .training = training, .channels = channels});
      for (std::size_t i = 0; i < plain.size(); ++i) {
        ASSERT_EQ(plain[i].defined(), fused[i].defined()) << use.name << ", tensor " << i;
        if (plain[i].defined()) {
          EXPECT_TRUE(at::allclose(fused[i], plain[i], 1e-4, 1e-5))
              << use.name << ", training " << training << ", tensor " << i;
        }
      }
    }
  }
}

TEST(NormFusion, GivesWhatTheOperatorsGiveOneByOne) { expect_what_the_operators_give(kUses); }

TEST(NormFusion, GivesWhatTheOperatorsGiveWithAFactorASample) {
  expect_what_the_operators_give(kUsesOfFactors);
}

/// A gate that is kept opens where one that is found again opens.
TEST(NormFusion, GivesTheSameBitsWithAllGatesKept) {
  for (const std::int64_t channels : {5, 8})
    for (const Use& use : kUses) {
      const auto found = everything_after(use, {.fused = true, .channels = channels});
      const auto kept =
          everything_after(use, {.fused = true, .channels = channels, .keep_relu_masks = true});
      for (std::size_t i = 0; i < found.size(); ++i)
        if (found[i].defined()) {
          EXPECT_TRUE(at::equal(kept[i], found[i])) << use.name << ", tensor " << i;
        }
    }
}

/// Counts the kernels by what must be true of memory: the value between norm and activation has
/// none of its own.
TEST(NormFusion, LeavesTheOutputInPlace) {
  Norm norm(5);
  LayerExecution execution({}, {}, {}, {.fuse = true});
  const OperatorScope scope(execution);
  const at::Tensor y = norm(channels_last({4, 5, 3, 3}));
  EXPECT_TRUE(execution.has_pending());
  at::Tensor z = y;
  z.relu_();
  EXPECT_EQ(z.const_data_ptr(), y.const_data_ptr());
  execution.end_pass();
  EXPECT_FALSE(execution.has_pending());
  EXPECT_GE(z.min().item<float>(), 0);
}

TEST(NormFusion, JoinsTheFactorsOfStochasticDepth) {
  Norm norm(5);
  LayerExecution execution({}, {}, {}, {.fuse = true});
  const OperatorScope scope(execution);
  const at::Tensor r = channels_last({4, 5, 3, 3}).requires_grad_();
  const at::Tensor kept = kept_samples();
  at::Tensor y = norm(channels_last({4, 5, 3, 3})) * kept;
  EXPECT_EQ(y.grad_fn()->name(), "triaccel::NormFusion");
  y += r;
  EXPECT_TRUE(execution.has_pending());
  EXPECT_EQ(y.grad_fn()->name(), "triaccel::NormFusion");
  execution.end_pass();
  EXPECT_TRUE(at::equal(y[0], r[0])) << "a sample that is left out";
  EXPECT_FALSE(at::equal(y[1], r[1]));
  const at::Tensor wanted = kept_samples().requires_grad_();
  const at::Tensor learned = norm(channels_last({4, 5, 3, 3})) * wanted;
  EXPECT_NE(learned.grad_fn()->name(), "triaccel::NormFusion");
}

TEST(NormFusion, LeavesToLibtorchWhatItDoesNotCompute) {
  Norm norm(5);
  LayerExecution execution({}, {}, {}, {.fuse = true});
  const OperatorScope scope(execution);
  const at::Tensor contiguous = at::randn({4, 5, 3, 3});
  EXPECT_TRUE(norm(contiguous).is_contiguous());
  EXPECT_THROW(norm(at::randn({1, 5, 1, 1})), c10::Error) << "one value a channel has no variance";
  norm->eval();
  const at::Tensor x = channels_last({4, 5, 3, 3}).requires_grad_();
  at::relu(norm(x)).sum().backward();
  EXPECT_TRUE(x.grad().defined()) << "gradients through running statistics";
}

TEST(NormFusion, LeavesWhatIsAddedToAFrozenNormItsGradient) {
  Norm frozen(5);
  frozen->eval();
  for (at::Tensor& parameter : frozen->parameters()) parameter.requires_grad_(false);
  LayerExecution execution({}, {}, {}, {.fuse = true});
  const at::Tensor adapter = channels_last({4, 5, 3, 3}).requires_grad_();
  const OperatorScope scope(execution);
  at::relu(frozen(channels_last({4, 5, 3, 3})) + adapter).sum().backward();
  EXPECT_TRUE(adapter.grad().defined());
}

TEST(NormFusion, RecordsNothingWhereGradientsAreOff) {
  Norm norm(5);
  LayerExecution execution({}, {}, {}, {.fuse = true});
  const OperatorScope scope(execution);
  const at::Tensor x = channels_last({4, 5, 3, 3}).requires_grad_();
  const at::Tensor y = norm(x);
  {
    const at::NoGradGuard no_grad;
    EXPECT_FALSE(at::relu(y).requires_grad());
  }
  at::Tensor silent;
  {
    const at::NoGradGuard no_grad;
    silent = norm(x);
  }
  const at::Tensor added = channels_last({4, 5, 3, 3}).requires_grad_();
  (silent + added).sum().backward();
  EXPECT_TRUE(added.grad().defined());
  EXPECT_FALSE(x.grad().defined());
}

TEST(NormFusion, CountsANormThatIsUsedTwiceTwice) {
  Norm norm(5);
  LayerExecution execution({}, {}, {}, {.fuse = true});
  const OperatorScope scope(execution);
  const at::Tensor y = norm(norm(channels_last({4, 5, 3, 3})).relu_());
  execution.end_pass();
  EXPECT_EQ(norm->num_batches_tracked.item<std::int64_t>(), 2);
}

/// What the other norm was given counts as it was when the two were added.
TEST(NormFusion, AddsTheNormOfAnInputThatIsOverwrittenAfterwards) {
  Norm first(8), second(8);
  const at::Tensor x = channels_last({4, 8, 3, 3}), r = channels_last({4, 8, 3, 3});
  const at::NoGradGuard no_grad;
  const at::Tensor wanted = at::relu(first(x) + second(r));
  LayerExecution execution({}, {}, {}, {.fuse = true});
  const OperatorScope scope(execution);
  at::Tensor map = r * 1, sum = first(x) + second(map);
  map.zero_();
  EXPECT_TRUE(at::allclose(sum.relu_(), wanted, 1e-4, 1e-5));
}

TEST(NormFusion, MultipliesWithAFactorThatIsOverwrittenAfterwards) {
  Norm norm(5);
  const at::Tensor x = channels_last({4, 5, 3, 3});
  const at::Tensor wanted = norm(x).detach() * kept_samples();
  LayerExecution execution({}, {}, {}, {.fuse = true});
  const OperatorScope scope(execution);
  at::Tensor kept = kept_samples(), y = norm(x) * kept;
  kept.fill_(7);
  EXPECT_TRUE(at::allclose(y.detach(), wanted, 1e-4, 1e-5));
  EXPECT_THROW(y.sum().backward(), c10::Error) << "as after a product of libtorch's";
}

TEST(NormFusion, RefusesBackwardAfterItsInputWasOverwritten) {
  Norm norm(5);
  LayerExecution execution({}, {}, {}, {.fuse = true});
  at::Tensor z, x = channels_last({4, 5, 3, 3}).requires_grad_();
  at::Tensor map = x * 1;
  {
    const OperatorScope scope(execution);
    z = norm(map).relu_();
    map.zero_();
  }
  EXPECT_THROW(z.sum().backward(), c10::Error);
}

/// Whoever hooks into a norm's output gets the gradient that libtorch would give, whatever follows.
TEST(NormFusion, LeavesANormAloneThatHasGradientHooks) {
  using Follow = std::function<at::Tensor(at::Tensor y, const at::Tensor& r, Norm& other)>;
  const std::vector<Follow> follows = {
      [](at::Tensor y, auto&, auto&) { return at::relu(y); },
      [](at::Tensor y, auto& r, auto&) { return at::relu(y + r); },
      [](at::Tensor y, auto& r, auto&) { return at::relu(r + y); },
      [](at::Tensor y, auto& r, auto& other) { return at::relu(other(r) + y); },
      [](at::Tensor y, auto& r, auto&) {
        return y * at::full({y.size(0), 1, 1, 1}, 0.5) + r;
      }};
  for (std::size_t i = 0; i < follows.size(); ++i) {
    std::vector<at::Tensor> heard;
    const Use use = {"", [&](Norm& a, Norm& b, const at::Tensor& x, const at::Tensor& r) {
                       const at::Tensor y = a(x);
                       y.register_hook([&](const at::Tensor& g) { heard.push_back(g.clone()); });
                       return follows[i](y, r, b);
                     }};
    const auto wanted = everything_after(use, {.fused = false});
    const auto found = everything_after(use, {.fused = true});
    ASSERT_EQ(heard.size(), 2u) << "once each way, case " << i;
    EXPECT_TRUE(at::allclose(heard[1], heard[0], 1e-4, 1e-6)) << "case " << i;
    EXPECT_TRUE(at::allclose(found[0], wanted[0], 1e-4, 1e-6)) << "case " << i;
  }
}

}  // namespace
}  // namespace triaccel
