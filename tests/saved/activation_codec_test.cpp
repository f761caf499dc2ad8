#include "triaccel/saved/activation_codec.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "tests/core/byte_codec.h"
#include "tests/saved/rounding_codec.h"
#include "tests/saved/saved_pass.h"
#include "triaccel/base/error.h"
#include "triaccel/policies/memory/held_bytes.h"

namespace triaccel {
namespace {

/// Announces more bytes than it encodes.
class WrongBytesCodec final : public ActivationCodec {
 public:
  std::string_view name() const override { return "wrong-bytes"; }
  std::int64_t bytes(std::span<const std::int64_t>) const override { return 3; }
  double bits() const override { return 1; }
  at::Tensor encode(const at::Tensor&, const EncodeRequest&) const override {
    return at::zeros({2}, at::kByte);
  }
  at::Tensor decode(const at::Tensor&, at::IntArrayRef sizes, at::IntArrayRef, at::ScalarType,
                    const kernels::DitherKey&) const override {
    return at::zeros(sizes);
  }
};

TEST(ActivationCodec, BackwardReadsWhatItDecodes) {
  const at::Tensor x = torch::randn({2, 3, 8, 8});
  const at::Tensor weight = torch::randn({4, 3, 3, 3}).requires_grad_();
  const Forward forward = [&] { return torch::conv2d(x, weight); };
  const auto store = store_for(forward, {weight}, rounding_plan());
  const at::Tensor result = kept(*store, forward);
  EXPECT_EQ(store->counts().mismatches, 0);
  EXPECT_EQ(store->counts().all_held_bytes(), 2 * x.numel());
  EXPECT_EQ(store->counts().held_bytes[static_cast<std::size_t>(SavedCodec::Registered)],
            2 * x.numel());
  result.sum().backward();
  const at::Tensor gradient = weight.grad().clone();
  weight.mutable_grad().reset();
  torch::conv2d(x.to(at::kBFloat16).to(at::kFloat), weight).sum().backward();
  EXPECT_TRUE(torch::equal(gradient, weight.grad()));
}

TEST(ActivationCodec, IsEncodedInTheBytesThatItsPlanForetells) {
  const SlimRun run({.name = "resnet18", .stem = "cifar", .width = 8, .image_size = 16}, 4);
  const Forward forward = [&] { return run.forward(); };
  const std::int64_t samples = run.input.size(0);
  const SavedCensus census = census_of(forward, run.constants, samples);
  const std::vector<SavedStatistics> tensors = tensors_of(census);
  const std::vector<SavedPlan> plans = plans_by_tensor(tensors, rounding_plan());
  const std::vector<at::Tensor> wanted = run.gradients(run.forward());
  const auto store = store_for(forward, run.constants, rounding_plan(), samples);
  const at::Tensor logits = kept(*store, forward);
  EXPECT_EQ(store->counts().all_held_bytes(), held_bytes(tensors, plans, samples));
  EXPECT_GT(cosine(run.gradients(logits), wanted), 0.9999);
}

TEST(ActivationCodec, ThatEncodesOtherBytesThanItAnnouncesIsRefused) {
  static const std::uint8_t number = register_activation_codec(std::make_unique<WrongBytesCodec>());
  const at::Tensor x = torch::randn({64, 64});
  const at::Tensor weight = torch::randn({64, 8}).requires_grad_();
  const Forward forward = [&] { return x.mm(weight); };
  const auto store =
      store_for(forward, {weight}, {.codec = SavedCodec::Registered, .registered = number});
  EXPECT_THROW(kept(*store, forward), UsageError);
  store->abandon_pass();
}

TEST(ActivationCodec, ThatCannotEncodeIsRefused) {
  EXPECT_EQ(activation_codec(rounding_plan().registered).name(), "rounded");
  EXPECT_THROW(activation_codec(byte_codec()), UsageError);
}

}  // namespace
}  // namespace triaccel
