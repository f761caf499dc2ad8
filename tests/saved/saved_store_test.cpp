#include "triaccel/saved/saved_store.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "tests/saved/rounding_codec.h"
#include "tests/saved/saved_pass.h"
#include "triaccel/base/error.h"
#include "triaccel/core/saved_bytes.h"
#include "triaccel/policies/memory/held_bytes.h"

namespace triaccel {
namespace {

const SavedPlan kRounded = rounding_plan();

TEST(SavedStore, LeavesEveryBitOfEveryGradientWithoutLoss) {
  for (const std::string& name : model_names()) {
    const SlimRun run(name);
    const at::Tensor exact = run.forward();
    const std::vector<at::Tensor> wanted = run.gradients(exact);
    const auto store = store_for([&] { return run.forward(); }, run.constants, {});
    const at::Tensor logits = kept(*store, [&] { return run.forward(); });
    EXPECT_TRUE(torch::equal(logits, exact)) << name;
    const SavedCounts counts = store->counts();
    EXPECT_EQ(counts.mismatches, 0) << name;
    EXPECT_LE(counts.all_held_bytes(), counts.unique_bytes) << name;
    const std::vector<at::Tensor> gradients = run.gradients(logits);
    for (std::size_t i = 0; i < wanted.size(); ++i)
      EXPECT_TRUE(torch::equal(gradients[i], wanted[i])) << name << " " << i;
    store->end_pass();
    EXPECT_FALSE(store->needs_profile()) << name;
  }
}

TEST(SavedStore, LeavesTheForwardPassAsItIs) {
  for (const std::string& name : model_names()) {
    const SlimRun run(name);
    const auto store = store_for([&] { return run.forward(); }, run.constants, kRounded);
    EXPECT_TRUE(torch::equal(kept(*store, [&] { return run.forward(); }), run.forward())) << name;
  }
}

/// Maxima and means of a ReLU's output, whose gradients need no values of it.
TEST(SavedStore, KeepsNothingOfWhatIsReadForItsSizesOnly) {
  const at::Tensor weight = torch::randn({8, 3, 3, 3}).requires_grad_();
  for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast})
    for (const int pool : {0, 1, 2}) {
      const at::Tensor x = torch::randn({2, 3, 11, 13}).contiguous(format);
      const Forward forward = [&] {
        const at::Tensor y = torch::relu(torch::conv2d(x, weight));
        if (pool == 0) return torch::max_pool2d(y, {3, 2}, {2, 2}, {1, 0}, {1, 2});
        if (pool == 1) return torch::avg_pool2d(y, 2);
        return torch::adaptive_avg_pool2d(y, {3, 2});
      };
      forward().square().sum().backward();
      const at::Tensor wanted = weight.grad().clone();
      weight.mutable_grad().reset();
      const auto store = store_for(forward, {weight}, {});
      const at::Tensor result = kept(*store, forward);
      const SavedCounts counts = store->counts();
      EXPECT_EQ(counts.held_bytes[static_cast<std::size_t>(SavedCodec::Raw)], 2 * 3 * 11 * 13 * 4);
      EXPECT_EQ(counts.held_bytes[static_cast<std::size_t>(SavedCodec::Mask)],
                mask_bytes(2 * 8 * 9 * 11));
      result.square().sum().backward();
      EXPECT_TRUE(torch::equal(weight.grad(), wanted)) << pool;
      weight.mutable_grad().reset();
    }
}

TEST(SavedStore, KeepsNonNumbersBehindAReluOpen) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const at::Tensor x = torch::tensor({nan, 1.0f, -1.0f, 0.0f}).repeat({2, 16}).requires_grad_();
  const Forward forward = [&] { return torch::relu(x); };
  const auto store = store_for(forward, {}, {});
  const at::Tensor result = kept(*store, forward);
  EXPECT_EQ(store->counts().all_held_bytes(), 16);
  result.backward(torch::ones_like(x));
  EXPECT_TRUE(torch::equal(x.grad()[0].slice(0, 0, 4), torch::tensor({1.0f, 1.0f, 0.0f, 0.0f})));
}

/// Its node saves the input, of which the sign is not what it asks for.
TEST(SavedStore, KeepsTheInputOfAThreshold) {
  const at::Tensor x = torch::randn({4, 64}).requires_grad_();
  const Forward forward = [&] { return torch::threshold(x * 2, -0.5, 0); };
  forward().square().sum().backward();
  const at::Tensor wanted = x.grad().clone();
  x.mutable_grad().reset();
  const auto store = store_for(forward, {}, {});
  kept(*store, forward).square().sum().backward();
  EXPECT_TRUE(torch::equal(x.grad(), wanted));
}

/// Images of two values in the samples that were profiled, of which later ones may have others.
TEST(SavedStore, KeepsTheValuesOfInputsThatLookedLikeMasks) {
  const at::Tensor weight = torch::randn({8, 3, 3, 3}).requires_grad_();
  for (const bool later : {false, true}) {
    at::Tensor x = torch::randint(2, {2, 3, 12, 12}) * 255.0;
    const Forward forward = [&] { return torch::conv2d(x, weight); };
    const auto store = store_for(forward, {weight}, {});
    if (later) x = torch::randn_like(x);
    forward().square().sum().backward();
    const at::Tensor wanted = weight.grad().clone();
    weight.mutable_grad().reset();
    kept(*store, forward).square().sum().backward();
    EXPECT_TRUE(torch::equal(weight.grad(), wanted)) << later;
    weight.mutable_grad().reset();
  }
}

TEST(SavedStore, KeepsATensorOnceForAllItsReaders) {
  const at::Tensor x = torch::randn({2, 4, 8, 8});
  const at::Tensor a = torch::randn({4, 4, 1, 1}).requires_grad_();
  const at::Tensor b = torch::randn({4, 4, 3, 3}).requires_grad_();
  const Forward forward = [&] { return torch::conv2d(x, a) + torch::conv2d(x, b, {}, 1, 1); };
  const auto store = store_for(forward, {a, b}, kRounded);
  const at::Tensor result = kept(*store, forward);
  EXPECT_EQ(store->counts().all_held_bytes(), 2 * 4 * 8 * 8 * 2);
  EXPECT_EQ(store->counts().shared, 1);
  EXPECT_EQ(store->counts().passed_bytes, 2 * store->counts().unique_bytes);
  result.sum().backward();
  EXPECT_EQ(store->counts().decodes, 1);
  EXPECT_EQ(store->counts().shared_decodes, 1);
}

TEST(SavedStore, EncodesValuesAndTheirMaskInOnePass) {
  const at::Tensor x = torch::randn({2, 4, 16, 16}).requires_grad_();
  const at::Tensor weight = torch::randn({4, 4, 1, 1}).requires_grad_();
  const Forward forward = [&] { return torch::conv2d(torch::relu(x), weight); };
  const auto gradient = [&](const at::Tensor& result) {
    return torch::autograd::grad({result.square().sum()}, {x}).front();
  };
  const at::Tensor wanted = gradient(forward());
  const SavedPlan plan{.codec = SavedCodec::NonZeros, .eighths = 40};
  const auto store = store_for(forward, {weight}, plan);
  const at::Tensor result = kept(*store, forward);
  EXPECT_EQ(store->counts().all_held_bytes(), mask_bytes(2048) + nonzero_bytes(2048, 40));
  EXPECT_EQ(store->counts().shared, 0);
  EXPECT_EQ(store->counts().mismatches, 0);
  EXPECT_TRUE(torch::equal(gradient(result), wanted));  // goes through the gates, which are exact
}

TEST(SavedStore, DoesNotTakeATensorForOneThatLayInTheSameMemory) {
  const at::Tensor w = torch::randn({64, 64}).requires_grad_();
  std::vector<at::Tensor> inputs;
  for (int i = 0; i < 8; ++i) inputs.push_back(torch::randn({96, 64}));
  const Forward forward = [&] {
    at::Tensor sum = torch::zeros({96, 64});
    for (const at::Tensor& input : inputs) {
      const at::Tensor gone = input + 1;  // nobody holds it once it is coded
      sum = sum + gone.mm(w);
    }
    return sum;
  };
  forward().square().sum().backward();
  const at::Tensor wanted = w.grad().clone();
  w.mutable_grad().reset();
  const auto store = store_for(forward, {w}, kRounded, 96);
  kept(*store, forward).square().sum().backward();
  EXPECT_EQ(store->counts().shared, 0);
  EXPECT_TRUE(torch::allclose(w.grad(), wanted, 1e-2, 1.0));
  w.mutable_grad().reset();
}

TEST(SavedStore, KeepsWhatATensorWasBeforeItIsChangedInPlace) {
  const at::Tensor w = torch::eye(4).requires_grad_();
  const Forward forward = [&] {
    at::Tensor x = torch::ones({2, 4});
    const at::Tensor first = x.mm(w);
    x.mul_(3);
    return torch::cat({first, x.mm(w)});
  };
  SavedCensus census = census_of(forward, {w}, 2);
  for (SavedEntry& entry : census.entries)
    if (entry.kind == SavedClass::Vector) entry.kind = SavedClass::Factor;
  SavedStore store({}, {w}, at::kCPU);
  store.follow(census, planned(census, kRounded));
  kept(store, forward).sum().backward();
  EXPECT_EQ(store.counts().shared, 0);
  EXPECT_TRUE(torch::equal(w.grad(), torch::full({4, 4}, 2.0f + 6.0f)));
}

TEST(SavedStore, NoticesARawTensorThatIsChangedInPlace) {
  const at::Tensor w = torch::eye(4).requires_grad_();
  at::Tensor x = torch::ones({2, 4});
  const Forward forward = [&] { return x.mm(w); };
  const auto store = store_for(forward, {w}, {});
  const at::Tensor result = kept(*store, forward);
  x.mul_(3);
  EXPECT_THROW(result.sum().backward(), UsageError);
}

TEST(SavedStore, KnowsParametersWhoseMemoryWasReplaced) {
  at::Tensor w = torch::randn({256, 256}).requires_grad_();
  const at::Tensor x = torch::randn({64, 256});
  const Forward forward = [&] { return torch::relu(x.mm(w)); };
  const auto store = store_for(forward, {w}, {}, 64);
  kept(*store, forward).sum().backward();
  const std::int64_t held = store->counts().all_held_bytes();
  w.set_data(torch::randn({256, 256}));
  kept(*store, forward).sum().backward();
  EXPECT_EQ(store->counts().all_held_bytes(), held);
  EXPECT_EQ(store->counts().mismatches, 0);
}

TEST(SavedStore, DecodesAsOftenAsBackwardAsks) {
  const SlimRun run("resnet18");
  const auto store = store_for([&] { return run.forward(); }, run.constants, kRounded);
  const at::Tensor logits = kept(*store, [&] { return run.forward(); });
  const auto parameters = run.network.module->parameters();
  const auto first =
      torch::autograd::grad({logits.square().sum()}, parameters, {}, /*retain_graph=*/true);
  const auto second = torch::autograd::grad({logits.square().sum()}, parameters);
  for (std::size_t i = 0; i < first.size(); ++i) EXPECT_TRUE(torch::equal(first[i], second[i]));
}

TEST(SavedStore, KeepsTwoForwardPassesApart) {
  const SlimRun run("resnet18");
  const auto store = store_for([&] { return run.forward(); }, run.constants, kRounded);
  const std::vector<at::Tensor> wanted = run.gradients(kept(*store, [&] { return run.forward(); }));
  const at::Tensor first = kept(*store, [&] { return run.forward(); });
  const at::Tensor second = kept(*store, [&] { return run.forward(); });
  for (const at::Tensor& logits : {second, first}) {
    const std::vector<at::Tensor> gradients = run.gradients(logits);
    for (std::size_t i = 0; i < wanted.size(); ++i)
      EXPECT_TRUE(torch::equal(gradients[i], wanted[i])) << i;
  }
}

TEST(SavedStore, GoesOnAfterAForwardPassThatFailed) {
  const SlimRun run("resnet18");
  const auto store = store_for([&] { return run.forward(); }, run.constants, kRounded);
  EXPECT_THROW(kept(*store,
                    [&]() -> at::Tensor {
                      run.forward();
                      throw std::runtime_error("no");
                    }),
               std::runtime_error);
  const std::vector<at::Tensor> wanted = run.gradients(kept(*store, [&] { return run.forward(); }));
  EXPECT_EQ(store->counts().mismatches, 0);
  EXPECT_EQ(wanted.size(), run.network.module->parameters().size());
}

TEST(SavedStore, RefusesASecondDerivative) {
  const SlimRun run("resnet18");
  const auto store = store_for([&] { return run.forward(); }, run.constants, {});
  const at::Tensor logits = kept(*store, [&] { return run.forward(); });
  const auto parameters = run.network.module->parameters();
  EXPECT_THROW(torch::autograd::grad({logits.square().sum()}, parameters, {}, true,
                                     /*create_graph=*/true),
               UsageError);
}

TEST(SavedStore, LeavesWhatIsNotAsPlannedRaw) {
  const at::Tensor w = torch::randn({4, 4, 3, 3}).requires_grad_();
  const at::Tensor small = torch::randn({2, 4, 8, 8}), large = torch::randn({2, 4, 10, 10});
  const auto on = [&](const at::Tensor& x) {
    return [&w, x] { return torch::relu(torch::conv2d(torch::tanh(x), w)); };
  };
  const auto store = store_for(on(small), {w}, kRounded);
  kept(*store, on(large)).sum().backward();
  const at::Tensor got = w.grad().clone();
  w.mutable_grad().reset();
  on(large)().sum().backward();
  EXPECT_TRUE(torch::equal(w.grad(), got));
  EXPECT_EQ(store->counts().mismatches, 2);
  EXPECT_TRUE(store->needs_profile());
}

TEST(SavedStore, TakesAnyBatchSize) {
  const at::Tensor w = torch::randn({4, 4, 3, 3}).requires_grad_();
  const auto on = [&](std::int64_t batch) {
    return [&w, batch] { return torch::relu(torch::conv2d(torch::randn({batch, 4, 8, 8}), w)); };
  };
  const auto store = store_for(on(2), {w}, kRounded);
  kept(*store, on(7)).sum().backward();
  EXPECT_EQ(store->counts().mismatches, 0);
  store->end_pass();
  EXPECT_FALSE(store->needs_profile());
}

TEST(SavedStore, TakesEmptyTensors) {
  const at::Tensor w = torch::randn({4, 4}).requires_grad_();
  const Forward forward = [&] { return torch::relu(torch::randn({0, 4}).mm(w)); };
  const auto store = store_for(forward, {w}, kRounded, 1);
  kept(*store, forward).sum().backward();
  EXPECT_EQ(store->counts().all_held_bytes(), 0);
}

TEST(SavedStore, HoldsNothingOnceTheGraphIsGone) {
  const at::Tensor w = torch::randn({4, 4, 3, 3}).requires_grad_();
  const Forward forward = [&] { return torch::conv2d(torch::randn({2, 4, 8, 8}), w); };
  const auto store = store_for(forward, {w}, {});
  c10::weak_intrusive_ptr<c10::StorageImpl> input(c10::intrusive_ptr<c10::StorageImpl>{});
  {
    const at::Tensor x = torch::randn({2, 4, 8, 8});
    input = x.storage().getWeakStorageImpl();
    const at::Tensor result = kept(*store, [&] { return torch::conv2d(x, w); });
    EXPECT_FALSE(input.expired());
  }
  EXPECT_TRUE(input.expired());
}

TEST(SavedStore, OutlivesItselfInTheGraph) {
  const SlimRun run("lenet5");
  auto store = store_for([&] { return run.forward(); }, run.constants, kRounded);
  const at::Tensor logits = kept(*store, [&] { return run.forward(); });
  store.reset();
  EXPECT_EQ(run.gradients(logits).size(), run.network.module->parameters().size());
}

struct CodecCase {
  SavedPlan plan;
  double least_cosine;
};

TEST(SavedStore, KeepsValuesByEveryCodecInTheBytesThatItsPlanForetells) {
  // Enough samples for its norms: over two values a norm's gradient is all but undefined.
  const SlimRun run({.name = "resnet18", .stem = "cifar", .width = 8, .image_size = 16}, 4);
  const std::int64_t samples = run.input.size(0);
  const SavedCensus census = census_of([&] { return run.forward(); }, run.constants, samples);
  const std::vector<SavedStatistics> tensors = tensors_of(census);
  const at::Tensor exact = run.forward();
  const std::vector<at::Tensor> wanted = run.gradients(exact);
  for (const CodecCase& each :
       {CodecCase{{.codec = SavedCodec::Groups, .eighths = 64}, 0.9999},
        CodecCase{{.codec = SavedCodec::Groups, .eighths = 32}, 0.98},
        CodecCase{{.codec = SavedCodec::NonZeros, .eighths = 64}, 0.9999},
        CodecCase{{.codec = SavedCodec::NonZeros, .eighths = 36}, 0.98},
        CodecCase{
            {.codec = SavedCodec::Frequency, .block = 8, .band_eighths = {64, 64, 64, 64, 64}},
            0.999},
        CodecCase{
            {.codec = SavedCodec::Frequency, .block = 4, .band_eighths = {48, 40, 32, 24, 20}},
            0.95},
        CodecCase{kRounded, 0.9999}}) {
    SavedStore store({.seed = 5}, run.constants, at::kCPU);
    const std::vector<SavedPlan> plans = plans_by_tensor(tensors, each.plan);
    store.follow(census, plans_by_entry(census, tensors, plans));
    const at::Tensor logits = kept(store, [&] { return run.forward(); });
    EXPECT_TRUE(torch::equal(logits, exact)) << name_of(each.plan.codec);
    EXPECT_EQ(store.counts().all_held_bytes(), held_bytes(tensors, plans, samples))
        << name_of(each.plan.codec);
    EXPECT_EQ(store.counts().fp32_bytes, fp32_bytes(tensors, samples));
    EXPECT_GT(cosine(run.gradients(logits), wanted), each.least_cosine)
        << name_of(each.plan.codec) << " " << int{each.plan.eighths};
  }
}

TEST(SavedStore, KeepsWhatIsSavedTwiceTwiceWhereNothingIsShared) {
  const at::Tensor x = torch::randn({2, 4, 8, 8});
  const at::Tensor a = torch::randn({4, 4, 1, 1}).requires_grad_();
  const Forward forward = [&] { return torch::conv2d(x, a) + torch::conv2d(x, a); };
  const SavedCensus census = census_of(forward, {a}, 2);
  SavedStore store({.share = false}, {a}, at::kCPU);
  store.follow(census, planned(census, kRounded));
  kept(store, forward).sum().backward();
  EXPECT_EQ(store.counts().all_held_bytes(), 2 * 2 * 4 * 8 * 8 * 2);
  EXPECT_EQ(store.counts().unique_bytes, 2 * 4 * 8 * 8 * 4);
}

TEST(SavedStore, DrawsOtherOffsetsInEveryPassAndTheSameInEveryRun) {
  const SlimRun run("resnet18");
  const Forward forward = [&] { return run.forward(); };
  const SavedPlan two_bits{.codec = SavedCodec::Groups, .eighths = 16};
  const auto first = store_for(forward, run.constants, two_bits);
  const auto again = store_for(forward, run.constants, two_bits);
  const std::vector<at::Tensor> one = run.gradients(kept(*first, forward));
  const std::vector<at::Tensor> two = run.gradients(kept(*first, forward));
  EXPECT_LT(cosine(one, two), 0.9999);
  EXPECT_NEAR(cosine(one, run.gradients(kept(*again, forward))), 1, 1e-9);
}

TEST(SavedStore, DecodesAPassThatALaterOneHasOvertaken) {
  const SlimRun run("resnet18");
  const Forward forward = [&] { return run.forward(); };
  const SavedPlan two_bits{.codec = SavedCodec::Groups, .eighths = 16};
  const auto store = store_for(forward, run.constants, two_bits);
  const auto again = store_for(forward, run.constants, two_bits);
  const std::vector<at::Tensor> wanted = run.gradients(kept(*store, forward));
  const at::Tensor early = kept(*again, forward);
  kept(*again, forward);
  EXPECT_NEAR(cosine(run.gradients(early), wanted), 1, 1e-9);
}

TEST(SavedStore, CountsRangesThatAreNotFinite) {
  const at::Tensor w = torch::randn({4, 4, 1, 1}).requires_grad_();
  at::Tensor x = torch::randn({2, 4, 16, 16});
  const Forward forward = [&] { return torch::conv2d(torch::tanh(x), w); };
  const auto store = store_for(forward, {w}, {.codec = SavedCodec::Groups, .eighths = 32});
  x[1][2][3][4] = std::numeric_limits<float>::quiet_NaN();
  kept(*store, forward).sum().backward();
  EXPECT_EQ(store->not_finite().item<int>(), 1);
  EXPECT_TRUE(w.grad().isnan().any().item<bool>());
}

}  // namespace
}  // namespace triaccel
