#include "triaccel/layers/fusion/excitation_fusion.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <map>
#include <set>
#include <string>

#include "tests/layers/fusion/excitation_network.h"
#include "triaccel/layers/execution/layer_execution.h"
#include "triaccel/ops/update/layer_scales.h"

namespace triaccel {
namespace {

namespace nn = torch::nn;
using Conv = nn::Conv2d;

constexpr std::int64_t kChannels = 5, kHidden = 3;

/// What a module does with the two layers and the means.
struct ExciteUse {
  std::string name;
  std::function<at::Tensor(Conv& squeeze, Conv& excite, const at::Tensor& means)> forward;
  int joined = 1;  // chains in autograd's graph
};

struct ExciteHow {
  bool fused = true;
  std::vector<Precision> precisions = {Precision::Fp32, Precision::Fp32};
  std::int64_t passes = 1;
  std::function<void(Conv& squeeze, Conv& excite)> prepare = [](Conv&, Conv&) {};
  GradientListener* listener = nullptr;
};

struct ExciteAfter {
  std::vector<at::Tensor> tensors;  // output, then gradients of the parameters and the means
  std::vector<at::ScalarType> weight_types;
  int joined = 0;
  bool each_weight_once = false;
};

int joined_behind(const at::Tensor& output) {
  std::set<torch::autograd::Node*> seen;
  std::vector<torch::autograd::Node*> next = {output.grad_fn().get()};
  int found = 0;
  while (!next.empty()) {
    torch::autograd::Node* node = next.back();
    next.pop_back();
    if (node == nullptr || !seen.insert(node).second) continue;
    found += node->name() == "triaccel::Excitation";
    for (const auto& edge : node->next_edges()) next.push_back(edge.function.get());
  }
  return found;
}

ExciteAfter after_excitation(const ExciteUse& use, const ExciteHow& how) {
  torch::manual_seed(3);
  Conv squeeze(nn::Conv2dOptions(kChannels, kHidden, 1));
  Conv excite(nn::Conv2dOptions(kHidden, kChannels, 1));
  how.prepare(squeeze, excite);
  const std::vector<at::Tensor> weights = {squeeze->weight, excite->weight};
  at::Tensor means = at::randn({4, kChannels, 1, 1}).requires_grad_();
  const at::Tensor direction = at::randn({4, kChannels, 1, 1});
  const at::Tensor scales = make_layer_scales(at::kCPU, 2);
  LayerExecution execution(weights, {}, scales, {.fuse = how.fused});
  execution.follow({{.compute = how.precisions[0]}, {.compute = how.precisions[1]}}, how.passes);
  ExciteAfter result;
  for (std::int64_t pass = 0; pass < how.passes; ++pass) {
    execution.begin_step(nullptr, how.listener);
    at::Tensor output;
    {
      const OperatorScope scope(execution);
      execution.begin_pass();
      output = use.forward(squeeze, excite, means.to(execution.carrier()));
      execution.end_pass();
    }
    result.joined = joined_behind(output);
    result.each_weight_once = execution.used_each_weight_once();
    (output.to(at::kFloat) * direction).sum().backward();
    execution.end_step();
    result.tensors = {output.detach()};
  }
  for (Conv* layer : {&squeeze, &excite}) {
    const at::Tensor of_weight = (*layer)->weight.grad(), of_bias = (*layer)->bias.grad();
    if (of_weight.defined()) result.weight_types.push_back(of_weight.scalar_type());
    for (const at::Tensor& gradient : {of_weight, of_bias})
      result.tensors.push_back(gradient.defined() ? gradient : at::zeros({1}));
  }
  result.tensors.push_back(means.grad());
  for (at::Tensor& tensor : result.tensors) tensor = tensor.to(at::kDouble);
  return result;
}

void expect_same_excitation(const ExciteAfter& found, const ExciteAfter& wanted, double tolerance,
                            const std::string& what) {
  ASSERT_EQ(found.tensors.size(), wanted.tensors.size());
  for (std::size_t i = 0; i < found.tensors.size(); ++i) {
    ASSERT_EQ(found.tensors[i].sizes(), wanted.tensors[i].sizes()) << what << ", tensor " << i;
    const double error = (found.tensors[i] - wanted.tensors[i]).norm().item<double>();
    EXPECT_LE(error, tolerance * wanted.tensors[i].norm().item<double>() + 1e-7)
        << what << ", tensor " << i;
  }
}

const ExciteUse kExciteChain = {
    "chain", [](Conv& a, Conv& b, const at::Tensor& m) { return at::sigmoid(b(at::silu(a(m)))); }};

const std::vector<ExciteUse> kExciteUses = {
    kExciteChain,
    {"SiLU in place",
     [](Conv& a, Conv& b, const at::Tensor& m) {
       at::Tensor h = a(m);
       at::silu_(h);
       return at::sigmoid(b(h));
     }},
    {"first output used again",
     [](Conv& a, Conv& b, const at::Tensor& m) {
       const at::Tensor y = a(m), gates = at::sigmoid(b(at::silu(y)));
       return gates + at::tanh(y).sum();
     }},
    {"first output used before",
     [](Conv& a, Conv& b, const at::Tensor& m) {
       const at::Tensor y = a(m), t = at::tanh(y).sum();
       return at::sigmoid(b(at::silu(y))) + t;
     },
     0},
    {"hidden numbers used again",
     [](Conv& a, Conv& b, const at::Tensor& m) {
       const at::Tensor y = a(m), h = at::silu(y), gates = at::sigmoid(b(h));
       return gates + at::tanh(h).sum() + at::tanh(y).sum();
     }},
    {"second output used again",
     [](Conv& a, Conv& b, const at::Tensor& m) {
       const at::Tensor y = b(at::silu(a(m))), gates = at::sigmoid(y);
       return gates + at::tanh(y);
     }},
    {"two gates from one hidden",
     [](Conv& a, Conv& b, const at::Tensor& m) {
       const at::Tensor h = at::silu(a(m));
       return at::sigmoid(b(h)) + at::sigmoid(b(h)) * 2;
     },
     2},
    {"two chains of the same layers",
     [](Conv& a, Conv& b, const at::Tensor& m) {
       const at::Tensor first = at::sigmoid(b(at::silu(a(m))));
       return at::sigmoid(b(at::silu(a(first))));
     },
     2},
    {"another activation",
     [](Conv& a, Conv& b, const at::Tensor& m) { return at::sigmoid(b(at::relu(a(m)))); }, 0},
    {"another activation in place",
     [](Conv& a, Conv& b, const at::Tensor& m) { return at::sigmoid(b(a(m).relu_())); }, 0},
    {"another gate",
     [](Conv& a, Conv& b, const at::Tensor& m) { return at::tanh(b(at::silu(a(m)))); }, 0},
    {"gate in place",
     [](Conv& a, Conv& b, const at::Tensor& m) { return b(at::silu(a(m))).sigmoid_(); }, 0},
    {"a norm plus the first output",
     [](Conv& a, Conv& b, const at::Tensor& m) {
       const auto normed = [&] {
         return at::batch_norm(m.slice(1, 0, kHidden).contiguous(), {}, {}, {}, {},
                               /*training=*/true, 0.1, 1e-5, /*cudnn_enabled=*/false);
       };
       return at::sigmoid(b(normed() + a(m))) + at::sigmoid(b(a(m) + normed()));
     },
     0},
    {"one sample without its dimension",
     [](Conv& a, Conv& b, const at::Tensor& m) {
       const at::Tensor hidden = at::conv2d(m[0], a->weight, a->bias);
       return at::sigmoid(at::conv2d(at::silu(hidden), b->weight, b->bias)) + 0 * m;
     },
     0},
    {"no second layer",
     [](Conv& a, Conv&, const at::Tensor& m) { return m + at::sigmoid(at::silu(a(m))).sum(); }, 0},
    {"second layer alone",
     [](Conv&, Conv& b, const at::Tensor& m) { return at::sigmoid(b(m.narrow(1, 0, kHidden))); },
     0},
    {"nobody reads the second layer",
     [](Conv& a, Conv& b, const at::Tensor& m) {
       const at::Tensor y = a(m);
       (void)b(at::silu(y));
       return m * y.sum();
     },
     0},
    {"means written afterwards",
     [](Conv& a, Conv& b, const at::Tensor& m) {
       at::Tensor gates;
       {
         const at::NoGradGuard no_grad;
         at::Tensor own = m * 1;
         const at::Tensor y = b(at::silu(a(own)));
         own.zero_();
         gates = at::sigmoid(y);
       }
       return m * gates;
     },
     0},
    {"hidden numbers written to",
     [](Conv& a, Conv& b, const at::Tensor& m) {
       at::Tensor h = at::silu(a(m));
       h.mul_(3);
       return at::sigmoid(b(h));
     },
     0},
    {"second output written to",
     [](Conv& a, Conv& b, const at::Tensor& m) {
       at::Tensor y = b(at::silu(a(m)));
       y += 1;
       return at::sigmoid(y);
     },
     0},
    {"a listener on the first output",
     [](Conv& a, Conv& b, const at::Tensor& m) {
       at::Tensor y = a(m);
       y.register_hook([](const at::Tensor& gradient) { return gradient * 3; });
       return at::sigmoid(b(at::silu(y)));
     },
     0},
    {"a part without gradients",
     [](Conv& a, Conv& b, const at::Tensor& m) {
       const at::Tensor y = b(at::silu(a(m)));
       const at::NoGradGuard no_grad;
       const at::Tensor constant = at::sigmoid(y);
       const at::AutoGradMode grad(true);
       return at::tanh(y) * constant;
     },
     0},
    {"all without gradients",
     [](Conv& a, Conv& b, const at::Tensor& m) {
       at::Tensor gates;
       {
         const at::NoGradGuard no_grad;
         gates = at::sigmoid(b(at::silu(a(m))));
       }
       return m * gates;
     },
     0},
    {"a detached weight",
     [](Conv& a, Conv& b, const at::Tensor& m) {
       const at::Tensor y = at::conv2d(m, a->weight.detach(), a->bias);
       return at::sigmoid(b(at::silu(y)));
     }},
    {"no bias",
     [](Conv& a, Conv& b,
        const at::Tensor& m) { return at::sigmoid(b(at::silu(at::conv2d(m, a->weight)))); },
     0}};

TEST(ExcitationFusion, GivesWhatTheOperatorsGiveOneByOne) {
  for (const ExciteUse& use : kExciteUses) {
    const ExciteAfter found = after_excitation(use, {}),
                      wanted = after_excitation(use, {.fused = false});
    expect_same_excitation(found, wanted, 2e-6, use.name);
    EXPECT_EQ(found.joined, use.joined) << use.name;
    EXPECT_EQ(wanted.joined, 0) << use.name;
  }
}

TEST(ExcitationFusion, TakesEveryPairOfPrecisions) {
  const ExciteAfter exact = after_excitation(kExciteChain, {.fused = false});
  for (const Precision first : {Precision::Fp32, Precision::Bf16, Precision::Fp16})
    for (const Precision second : {Precision::Fp32, Precision::Bf16, Precision::Fp16})
      for (const std::int64_t passes : {1, 2}) {
        const std::string what = std::string(name_of(first)) + ", " + std::string(name_of(second));
        const ExciteAfter found =
            after_excitation(kExciteChain, {.precisions = {first, second}, .passes = passes});
        ExciteAfter wanted = exact;
        for (std::size_t i = 1; i < wanted.tensors.size(); ++i)
          wanted.tensors[i] = wanted.tensors[i] * passes;
        expect_same_excitation(found, wanted, 0.02, what);
        EXPECT_EQ(found.joined, 1) << what;
        const auto type = [&](Precision precision) {
          return precision == Precision::Bf16 && passes == 1 ? at::kBFloat16 : at::kFloat;
        };
        EXPECT_EQ(found.weight_types, (std::vector{type(first), type(second)})) << what;
      }
}

TEST(ExcitationFusion, GivesNoGradientToWhatIsFrozen) {
  const auto frozen = [](bool a, bool a_bias, bool b, bool b_bias) {
    return [=](Conv& squeeze, Conv& excite) {
      squeeze->weight.set_requires_grad(!a);
      squeeze->bias.set_requires_grad(!a_bias);
      excite->weight.set_requires_grad(!b);
      excite->bias.set_requires_grad(!b_bias);
    };
  };
  for (int which = 0; which < 16; ++which) {
    const auto freeze =
        frozen((which & 1) != 0, (which & 2) != 0, (which & 4) != 0, (which & 8) != 0);
    const ExciteAfter found = after_excitation(kExciteChain, {.prepare = freeze});
    expect_same_excitation(found,
                           after_excitation(kExciteChain, {.fused = false, .prepare = freeze}),
                           2e-6, "frozen " + std::to_string(which));
    EXPECT_EQ(found.joined, 1);
  }
}

TEST(ExcitationFusion, TellsOfEveryGradientOnceAndWhenItIsThere) {
  struct Listener : GradientListener {
    void gradient_ready(const at::Tensor& weight, bool) override {
      EXPECT_TRUE(weight.grad().defined());
      ++told[weight.unsafeGetTensorImpl()];
      for (const at::Tensor& all : weights) all.mutable_grad().reset();  // as an update takes them
    }
    std::vector<at::Tensor> weights;
    std::map<const void*, int> told;
  } listener;
  const auto know = [&](Conv& squeeze, Conv& excite) {
    listener.weights = {squeeze->weight, excite->weight};
  };
  EXPECT_EQ(after_excitation(kExciteChain, {.prepare = know, .listener = &listener}).joined, 1);
  ASSERT_EQ(listener.told.size(), 2u);
  for (const auto& [weight, times] : listener.told) EXPECT_EQ(times, 1);
}

TEST(ExcitationFusion, CountsALayerThatIsComputedOnceMore) {
  EXPECT_TRUE(after_excitation(kExciteChain, {}).each_weight_once);
  at::Tensor kept;
  const ExciteUse keeps = {"keeps the first output", [&](Conv& a, Conv& b, const at::Tensor& m) {
                             kept = a(m);
                             return at::sigmoid(b(at::silu(kept)));
                           }};
  EXPECT_FALSE(after_excitation(keeps, {}).each_weight_once);
  EXPECT_FALSE(at::isnan(kept).any().item<bool>());
}

TEST(ExcitationFusion, RefusesBackwardAfterWhatItReadsWasOverwritten) {
  const ExciteUse overwrites = {"", [](Conv& a, Conv& b, const at::Tensor& m) {
                                  at::Tensor y = a(m);
                                  const at::Tensor h = at::silu(y);
                                  y.mul_(2);
                                  return at::sigmoid(b(h));
                                }};
  EXPECT_THROW(after_excitation(overwrites, {.fused = false}), c10::Error);
  EXPECT_THROW(after_excitation(overwrites, {}), c10::Error);
}

TEST(ExcitationFusion, StaysOperatorByOperatorWhereSavedTensorsMayBeCompressed) {
  torch::manual_seed(3);
  Conv squeeze(nn::Conv2dOptions(kChannels, kHidden, 1));
  Conv excite(nn::Conv2dOptions(kHidden, kChannels, 1));
  LayerExecution execution({squeeze->weight, excite->weight}, {}, {},
                           {.fuse = true, .keep_relu_masks = true});
  const OperatorScope scope(execution);
  execution.begin_pass();
  const at::Tensor gates = kExciteChain.forward(squeeze, excite, at::randn({4, kChannels, 1, 1}));
  execution.end_pass();
  EXPECT_EQ(joined_behind(gates), 0);
}

TEST(ExcitationFusion, GivesEfficientNetTheGradientsOfTheOperatorsOneByOne) {
  const auto pass = [](bool joined) {
    return efficientnet_pass(at::kCPU, /*width=*/8, /*batch=*/6, {Precision::Fp32}, joined);
  };
  const ExcitedPass wanted = pass(false), found = pass(true);
  EXPECT_NEAR(found.loss, wanted.loss, 1e-5 * wanted.loss);
  EXPECT_LE(distance(found, wanted), 1e-3);
}

}  // namespace
}  // namespace triaccel
