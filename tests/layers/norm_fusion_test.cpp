#include "triaccel/layers/norm_fusion.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <string>

#include "triaccel/layers/layer_execution.h"

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
  bool gate_all_norms = false;
};

/// All that a pass leaves: output, gradients of maps and parameters, running statistics, counters.
std::vector<at::Tensor> everything_after(const Use& use, const How& how) {
  const auto& [fused, training, channels, gate_all_norms] = how;
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
  LayerExecution execution({}, {}, {}, {.fuse = fused, .gate_all_norms = gate_all_norms});
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
    {"norm of a norm", [](Norm& a, Norm& b, auto& x, auto&) { return b(a(x)).relu_(); }},
    {"output that nobody reads",
     [](Norm& a, Norm& b, auto& x, auto&) {
       (void)a(x);
       return b(x).relu_();
     }},
    {"view of the output",
     [](Norm& a, Norm&, auto& x, auto&) { return a(x).flatten(1).relu().view(x.sizes()); }},
};

TEST(NormFusion, GivesWhatTheOperatorsGiveOneByOne) {
  for (const auto& [training, channels] :
       {std::pair<bool, std::int64_t>{true, 5}, {true, 8}, {false, 5}}) {
    for (const Use& use : kUses) {
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

/// A gate that is kept opens where one that is found again opens.
TEST(NormFusion, GivesTheSameBitsWithAllGatesKept) {
  for (const std::int64_t channels : {5, 8})
    for (const Use& use : kUses) {
      const auto found = everything_after(use, {.fused = true, .channels = channels});
      const auto kept =
          everything_after(use, {.fused = true, .channels = channels, .gate_all_norms = true});
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
  EXPECT_TRUE(execution.waits());
  at::Tensor z = y;
  z.relu_();
  EXPECT_EQ(z.const_data_ptr(), y.const_data_ptr());
  execution.end_pass();
  EXPECT_FALSE(execution.waits());
  EXPECT_GE(z.min().item<float>(), 0);
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

}  // namespace
}  // namespace triaccel
