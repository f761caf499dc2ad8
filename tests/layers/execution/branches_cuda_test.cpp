#include "triaccel/layers/execution/branches.h"

#include <ATen/cuda/Sleep.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <string>
#include <vector>

#include "triaccel/device/device_choice.h"
#include "triaccel/layers/execution/layer_execution.h"
#include "triaccel/ops/update/layer_scales.h"

namespace triaccel {
namespace {

namespace nn = torch::nn;
const c10::Device kDevice(c10::kCUDA, 0);

constexpr std::int64_t kChannels = 16;

/// What a residual block is made of: each use takes what it needs.
struct Parts : nn::Module {
  Parts() {
    for (int i = 0; i < 4; ++i) {
      const auto name = std::to_string(i);
      const nn::Conv2dOptions wide(kChannels, kChannels, 3), narrow(kChannels, kChannels, 1);
      convs.push_back(register_module(
          "conv" + name,
          nn::Conv2d(nn::Conv2dOptions(wide).stride(i == 1 ? 2 : 1).padding(1).bias(false))));
      shortcuts.push_back(register_module(
          "shortcut" + name, nn::Conv2d(nn::Conv2dOptions(narrow).stride(2).bias(i == 2))));
      norms.push_back(register_module("norm" + name, nn::BatchNorm2d(kChannels)));
    }
  }
  std::vector<nn::Conv2d> convs, shortcuts;
  std::vector<nn::BatchNorm2d> norms;

  at::Tensor entered(const at::Tensor& x) { return norms[0](convs[0](x)).relu_(); }
  /// The path that runs concurrently with the shortcuts.
  at::Tensor chain(const at::Tensor& x) {
    return norms[2](convs[2](norms[1](convs[1](x)).relu_()));
  }
};

void sleep_a_while() { at::cuda::sleep(2'000'000); }  // cycles: about a millisecond

struct Use {
  std::string name;
  std::function<at::Tensor(Parts&, const at::Tensor&)> forward;
};

const std::vector<Use> kUses = {
    {"ResidualBlock",
     [](Parts& p, const at::Tensor& image) {
       const at::Tensor x = p.entered(image);
       at::Tensor out = p.chain(x);
       out += p.norms[3](p.shortcuts[0](x));
       return out.relu_();
     }},
    {"BlocksInARow",
     [](Parts& p, const at::Tensor& image) {
       at::Tensor x = p.entered(image);
       at::Tensor out = p.chain(x);
       out += p.norms[3](p.shortcuts[0](x));
       x = out.relu_();
       out = p.convs[3](x);
       out = out.slice(2, 0, out.size(2), 2).slice(3, 0, out.size(3), 2);
       return at::relu(out + p.shortcuts[1](x));
     }},
    {"ShortcutWithoutNorm",
     [](Parts& p, const at::Tensor& image) {
       const at::Tensor x = p.entered(image);
       return at::relu(p.chain(x) + p.shortcuts[0](x));
     }},
    {"ShortcutWithBias",
     [](Parts& p, const at::Tensor& image) {
       const at::Tensor x = p.entered(image);
       return at::relu(p.chain(x) + p.norms[3](p.shortcuts[2](x)));
     }},
    {"NormedAndActivated",
     [](Parts& p, const at::Tensor& image) {
       const at::Tensor x = p.entered(image), out = p.chain(x);
       const at::Tensor normed = p.norms[3](p.shortcuts[0](x));
       return at::relu(normed) + out * normed;
     }},
    {"MapReadBesideItsNorm",
     [](Parts& p, const at::Tensor& image) {
       const at::Tensor x = p.entered(image), out = p.chain(x);
       const at::Tensor map = p.shortcuts[0](x);
       return out + p.norms[3](map) + map;
     }},
    {"HookOnTheMap",
     [](Parts& p, const at::Tensor& image) {
       const at::Tensor x = p.entered(image), out = p.chain(x);
       const at::Tensor map = p.shortcuts[0](x);
       map.register_hook([](const at::Tensor& gradient) { return gradient * 2; });
       return out + p.norms[3](map);
     }},
    {"OneNormForBothWays",
     [](Parts& p, const at::Tensor& image) {
       const at::Tensor x = p.entered(image);
       at::Tensor out = p.norms[3](p.convs[1](x)).relu_();
       out = p.norms[2](p.convs[2](out));
       return out + p.norms[3](p.shortcuts[0](x));
     }},
    {"OneNormForBothWaysMovedLate",
     [](Parts& p, const at::Tensor& image) {
       const at::Tensor x = p.entered(image);
       at::Tensor out = p.convs[1](x);
       sleep_a_while();
       out = p.norms[2](p.convs[2](p.norms[3](out).relu_()));
       return out + p.norms[3](p.shortcuts[0](x));
     }},
    {"HookOnTheMapAfterItsNorm",
     [](Parts& p, const at::Tensor& image) {
       const at::Tensor x = p.entered(image), out = p.chain(x);
       const at::Tensor map = p.shortcuts[0](x), normed = p.norms[3](map);
       map.register_hook([](const at::Tensor& gradient) { return gradient * 2; });
       return out + normed;
     }},
    {"NormOfAShortcutUsedLater",
     [](Parts& p, const at::Tensor& image) {
       const at::Tensor x = p.entered(image);
       at::Tensor out = p.chain(x);
       out += p.norms[3](p.shortcuts[0](x));
       return p.norms[3](p.convs[3](out.relu_()));
     }},
    {"ParameterOfTheNormUsedApart",
     [](Parts& p, const at::Tensor& image) {
       const at::Tensor x = p.entered(image);
       const at::Tensor out = at::relu(p.chain(x) + p.norms[3](p.shortcuts[0](x)));
       return out * p.norms[3]->weight.to(out.scalar_type()).view({1, -1, 1, 1});
     }},
    {"WeightWrittenBetweenTheWays",
     [](Parts& p, const at::Tensor& image) {
       const at::Tensor x = p.entered(image), out = p.chain(x);
       {
         const at::NoGradGuard no_grad;
         sleep_a_while();
         p.shortcuts[0]->weight.mul_(0.5);
       }
       at::Tensor sum = out + p.norms[3](p.shortcuts[0](x));
       const at::Tensor again = p.convs[3](sum);
       return again.slice(2, 0, again.size(2), 2).slice(3, 0, again.size(3), 2) +
              p.shortcuts[1](sum);
     }},
    {"ThreeWays",
     [](Parts& p, const at::Tensor& image) {
       const at::Tensor x = p.entered(image), out = p.chain(x);
       return out + p.norms[3](p.shortcuts[0](x)) + at::relu(p.shortcuts[1](x));
     }},
    {"ShortcutFirst",
     [](Parts& p, const at::Tensor& image) {
       const at::Tensor x = p.entered(image);
       const at::Tensor shortcut = p.norms[3](p.shortcuts[0](x));
       return at::relu(p.chain(x) + shortcut);
     }},
    {"MapThatNobodyNeeds",
     [](Parts& p, const at::Tensor& image) {
       const at::Tensor x = p.entered(image), out = p.chain(x);
       p.norms[3](p.shortcuts[0](x));
       return out + p.norms[3]->running_mean.to(out.scalar_type()).view({1, -1, 1, 1});
     }},
};

/// Which of the streams is late: what does not wait for it reads what is not there yet.
enum class Late { None, Main, Branch, Updates };

/// As an update does, it changes a weight as soon as that has its gradient: whoever still reads the
/// weight then finds another.
class ChangingWeights final : public GradientListener {
 public:
  explicit ChangingWeights(SideStreams* side) : side_(side) {}
  void gradient_ready(const at::Tensor& weight, bool on_side_stream) override {
    const auto change = [&] {
      const at::NoGradGuard no_grad;
      weight.mul_(0.5);
    };
    if (on_side_stream)
      side_->updates.run(change, {});
    else
      change();
  }

 private:
  SideStreams* side_;
};

/// Output, gradients, weights and buffers after three steps, on one stream or with others next to
/// it. Layers compute in the precisions in turn.
std::vector<at::Tensor> everything_after(const Use& use, const std::vector<Precision>& precisions,
                                         SideStreams* side, Late late) {
  torch::manual_seed(3);
  Parts parts;
  parts.to(kDevice);
  std::vector<at::Tensor> weights;
  for (at::Tensor& parameter : parts.parameters()) {
    if (parameter.dim() != 4) continue;
    const at::NoGradGuard no_grad;
    parameter.set_data(parameter.contiguous(at::MemoryFormat::ChannelsLast));
    weights.push_back(parameter);
  }
  const at::Tensor image =
      at::randn({6, kChannels, 16, 16}).to(kDevice).contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor scales = make_layer_scales(kDevice, static_cast<std::int64_t>(weights.size()));
  LayerExecution execution(weights, {}, scales, {.fuse = true, .prepare_weights = true});
  std::vector<LayerPlan> plan(weights.size());
  for (std::size_t i = 0; i < plan.size(); ++i) plan[i].compute = precisions[i % precisions.size()];
  execution.follow(plan, 1);
  ChangingWeights listener(side);
  std::vector<at::Tensor> all;
  for (int step = 0; step < 3; ++step) {
    for (at::Tensor& parameter : parts.parameters()) parameter.mutable_grad().reset();
    at::Tensor output;
    if (late == Late::Updates) side->updates.run(sleep_a_while, {});
    execution.begin_step(side, &listener);
    if (late == Late::Main) sleep_a_while();
    if (late == Late::Branch) side->branches.run(sleep_a_while, {});
    if (late == Late::Updates) side->updates.run(sleep_a_while, {});
    {
      const OperatorScope scope(execution);
      execution.begin_pass();
      output = use.forward(parts, image);
      execution.end_pass();
    }
    if (late == Late::Main) sleep_a_while();
    if (late == Late::Branch) side->branches.run(sleep_a_while, {});
    if (late == Late::Updates) side->updates.run(sleep_a_while, {});
    torch::manual_seed(5);
    const at::Tensor direction = at::randn(output.sizes()).to(kDevice);
    (output.to(at::kFloat) * direction).sum().backward();
    if (side != nullptr) side->join();
    execution.end_step();
    all.push_back(output.detach().clone());
    for (at::Tensor& parameter : parts.parameters())
      if (parameter.grad().defined()) all.push_back(parameter.grad().clone());
    for (at::Tensor& parameter : parts.parameters()) all.push_back(parameter.detach().clone());
    for (at::Tensor& buffer : parts.buffers()) all.push_back(buffer.clone());
  }
  for (at::Tensor& tensor : all) tensor = tensor.cpu();
  return all;
}

class BranchesOnCuda : public testing::TestWithParam<Use> {
 protected:
  void SetUp() override {
    if (!at::hasCUDA()) GTEST_SKIP() << "this machine has no CUDA device";
    set_arithmetic(/*deterministic=*/true);
  }
  void TearDown() override { set_arithmetic(/*deterministic=*/false); }
};

TEST_P(BranchesOnCuda, GiveEveryBitOfOneStream) {
  const c10::cuda::CUDAStreamGuard guard(c10::cuda::getStreamFromPool());
  const std::vector<std::vector<Precision>> plans = {
      {Precision::Bf16}, {Precision::Fp16}, {Precision::Bf16, Precision::Fp32}};
  for (const std::vector<Precision>& precisions : plans) {
    const auto expected = everything_after(GetParam(), precisions, nullptr, Late::None);
    for (const Late late : {Late::None, Late::Main, Late::Branch, Late::Updates}) {
      SideStreams side;
      const auto found = everything_after(GetParam(), precisions, &side, late);
      EXPECT_GE(side.branches.run([] {}, {}).number, 3)
          << "work on the side stream: at least once per step";
      ASSERT_EQ(found.size(), expected.size());
      for (std::size_t i = 0; i < found.size(); ++i)
        EXPECT_TRUE(at::equal(found[i], expected[i]))
            << "tensor " << i << " in " << name_of(precisions.front()) << " of "
            << precisions.size() << ", late " << static_cast<int>(late) << ": "
            << (found[i] - expected[i]).abs().max().item<double>();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Uses, BranchesOnCuda, testing::ValuesIn(kUses),
                         [](const auto& which) { return which.param.name; });

/// A branch is found where a second convolution reads the same map, and nowhere else.
TEST(Branches, BeginAtTheSecondReader) {
  if (!at::hasCUDA()) GTEST_SKIP() << "this machine has no CUDA device";
  const c10::cuda::CUDAStreamGuard guard(c10::cuda::getStreamFromPool());
  SideStreams side;
  Branches branches;
  const auto map = [](at::ScalarType type) {
    return at::zeros({4, 8, 2, 2}, at::TensorOptions(type).device(kDevice)).requires_grad_();
  };
  const at::Tensor x = map(at::kBFloat16), y = map(at::kBFloat16), z = map(at::kBFloat16);
  const at::Tensor wide = map(at::kFloat);
  branches.begin_pass(nullptr);
  EXPECT_FALSE(branches.may_part_behind(x));
  branches.begin_pass(&side);
  EXPECT_TRUE(branches.may_part_behind(x));
  EXPECT_FALSE(branches.may_part_behind(wide));
  EXPECT_FALSE(branches.may_part_behind(x.detach()));
  EXPECT_EQ(branches.at(x), nullptr);
  for (const at::Tensor& tensor : {x, z}) branches.note_reader(tensor);
  EXPECT_EQ(branches.at(y), nullptr);
  {
    const at::NoGradGuard no_grad;
    z.add_(1);
  }
  EXPECT_EQ(branches.at(z), nullptr) << "it was written to";
  const auto branch = branches.at(x);
  ASSERT_NE(branch, nullptr);
  at::Tensor made;
  branch->run([&] { made = x.detach() + 1; }, {x});
  branches.note_made(branch, x, made);
  EXPECT_EQ(branches.maker_of(made), branch);
  branches.touch(y, /*writes=*/true);
  branches.touch(x, /*writes=*/false);
  EXPECT_EQ(branches.maker_of(made), branch);
  branches.touch(made.view({-1}), /*writes=*/false);
  EXPECT_EQ(branches.maker_of(made), nullptr);
  branches.note_reader(x);
  const auto another = branches.at(x);
  another->run([&] { made = x.detach() + 1; }, {x});
  branches.note_made(another, x, made);
  branches.touch(x, /*writes=*/true);
  EXPECT_EQ(branches.maker_of(made), nullptr);
  branches.note_reader(x);
  EXPECT_TRUE(branches.has_pending());
  branches.touch(wide, /*writes=*/true);
  EXPECT_FALSE(branches.has_pending()) << "nothing begins behind a write to a leaf";
  branches.end_pass();
}

}  // namespace
}  // namespace triaccel
