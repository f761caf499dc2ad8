#include "triaccel/saved/host_offload.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/saved/saved_pass.h"
#include "triaccel/base/error.h"
#include "triaccel/core/saved_bytes.h"
#include "triaccel/device/cpu_memory.h"
#include "triaccel/device/out_of_memory.h"
#include "triaccel/saved/host_arena.h"

namespace triaccel {
namespace {

/// A store that keeps all it can in host memory.
std::unique_ptr<SavedStore> offloading_store(const Forward& forward,
                                             const std::vector<at::Tensor>& constants,
                                             std::int64_t samples) {
  auto store = std::make_unique<SavedStore>(SavedStoreOptions{}, constants, at::kCPU);
  const SavedCensus census = census_of(forward, constants, samples);
  const std::vector<SavedStatistics> tensors = tensors_of(census);
  store->follow(census, plans_by_entry(census, tensors, offload_plans(tensors)));
  return store;
}

void expect_equal(const std::vector<at::Tensor>& found, const std::vector<at::Tensor>& wanted,
                  const std::string& what = "") {
  ASSERT_EQ(found.size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i)
    EXPECT_TRUE(torch::equal(found[i], wanted[i])) << what << " " << i;
}

/// A residual network whose maps are large enough, and its exact gradients.
struct OffloadedRun {
  OffloadedRun() {
    install_cpu_memory();
    wanted = run.gradients(run.forward());
    store = offloading_store(forward, run.constants, run.input.size(0));
  }

  at::Tensor pass() { return kept(*store, forward); }

  SlimRun run{{.name = "resnet18", .stem = "cifar", .width = 8, .image_size = 32}, 8};
  Forward forward = [this] { return run.forward(); };
  std::vector<at::Tensor> wanted;
  std::unique_ptr<SavedStore> store;
};

TEST(HostOffload, LeavesEveryBitOfEveryGradient) {
  for (const std::string& name : model_names()) {
    const SlimRun run(slim(name), name == "gpt-small" || name == "pointnet-plain" ? 64 : 24);
    const Forward forward = [&] { return run.forward(); };
    const at::Tensor exact = run.forward();
    const std::vector<at::Tensor> wanted = run.gradients(exact);
    const auto store = offloading_store(forward, run.constants, run.input.size(0));
    std::int64_t taken = 0;
    for (int pass = 0; pass < 3; ++pass) {
      const at::Tensor logits = kept(*store, forward);
      EXPECT_TRUE(torch::equal(logits, exact)) << name;
      const SavedCounts counts = store->counts();
      EXPECT_EQ(counts.mismatches, 0) << name;
      EXPECT_GE(counts.host_bytes(), kLeastHostBytes) << name;
      EXPECT_LT(counts.all_held_bytes(), counts.unique_bytes) << name;
      expect_equal(run.gradients(logits), wanted, name);
      store->end_pass();
      EXPECT_FALSE(store->needs_profile()) << name;
      EXPECT_GE(store->host_bytes(), counts.host_bytes()) << name;
      EXPECT_TRUE(pass == 0 || store->host_bytes() == taken) << name;
      taken = store->host_bytes();
    }
  }
}

TEST(HostOffload, TakesMostOfTheActivationsOffTheGauge) {
  OffloadedRun each;
  const auto peak = [&](const Forward& forward) {
    const std::int64_t before = read_cpu_memory().used;
    reset_cpu_memory_peak();
    each.run.gradients(forward());
    return read_cpu_memory().peak - before;
  };
  const std::int64_t raw = peak(each.forward);
  for (int pass = 0; pass < 2; ++pass)
    EXPECT_LT(peak([&] { return each.pass(); }), raw / 2) << pass;
}

TEST(HostOffload, KeepsTwoForwardPassesApart) {
  OffloadedRun each;
  const at::Tensor first = each.pass(), second = each.pass();
  expect_equal(each.run.gradients(second), each.wanted);
  expect_equal(each.run.gradients(first), each.wanted);
  const std::int64_t taken = each.store->host_bytes();
  expect_equal(each.run.gradients(each.pass()), each.wanted);
  EXPECT_EQ(each.store->host_bytes(), taken);
}

TEST(HostOffload, GivesBackAsOftenAsBackwardAsksAndAfterTheStoreIsGone) {
  OffloadedRun each;
  const at::Tensor logits = each.pass();
  each.store.reset();
  const auto parameters = each.run.network.module->parameters();
  const auto loss = [&] { return logits.square().mean(); };
  // The last layer's gradient alone: what is copied ahead of it nobody reads.
  const auto last = torch::autograd::grad({loss()}, {parameters.back()}, {}, /*retain_graph=*/true);
  expect_equal(last, {each.wanted.back()});
  expect_equal(torch::autograd::grad({loss()}, parameters, {}, /*retain_graph=*/true), each.wanted);
  expect_equal(torch::autograd::grad({loss()}, parameters), each.wanted);
}

TEST(HostOffload, DifferentiatesTwice) {
  const at::Tensor x = torch::randn({64, 2048}).requires_grad_();
  const Forward forward = [&] { return torch::tanh(x * 2) * x; };
  const auto second = [&](const at::Tensor& result) {
    const at::Tensor first =
        torch::autograd::grad({result.sum()}, {x}, {}, {}, /*create_graph=*/true).front();
    return torch::autograd::grad({first.square().sum()}, {x}).front();
  };
  const at::Tensor wanted = second(forward());
  const auto store = offloading_store(forward, {}, 64);
  const at::Tensor result = kept(*store, forward);
  EXPECT_GT(store->counts().host_bytes(), 0);
  EXPECT_TRUE(torch::equal(second(result), wanted));
}

TEST(HostOffload, KeepsPartsOfOneTensorOnce) {
  const at::Tensor joint = torch::randn({8, 64, 3 * 256});
  const at::Tensor weight = torch::randn({256}).requires_grad_();
  const Forward forward = [&] {
    const std::vector<at::Tensor> parts = joint.tanh().chunk(3, -1);
    return parts[0] * weight + parts[1] * weight + parts[2] * weight;
  };
  const auto gradient = [&](const at::Tensor& result) {
    return torch::autograd::grad({result.sum()}, {weight}).front();
  };
  const at::Tensor wanted = gradient(forward());
  const auto store = offloading_store(forward, {weight}, 8);
  const at::Tensor result = kept(*store, forward);
  EXPECT_EQ(store->counts().host_bytes(), static_cast<std::int64_t>(joint.nbytes()));
  EXPECT_EQ(store->counts().shared, 2);
  EXPECT_TRUE(torch::equal(gradient(result), wanted));
}

TEST(HostOffload, LeavesSmallTensorsWhereTheyAre) {
  const at::Tensor weight = torch::randn({16, 16}).requires_grad_();
  const at::Tensor x = torch::randn({64, 16});
  const Forward forward = [&] { return x.mm(weight); };
  const auto store = offloading_store(forward, {weight}, 64);
  kept(*store, forward).sum().backward();
  EXPECT_EQ(store->host_bytes(), 0);
  EXPECT_EQ(store->counts().mismatches, 0);
}

TEST(HostOffload, NoticesATensorThatIsChangedInPlace) {
  const at::Tensor weight = torch::eye(256).requires_grad_();
  at::Tensor x = torch::ones({1024, 256});
  const Forward forward = [&] { return x.mm(weight); };
  const auto store = offloading_store(forward, {weight}, 1024);
  const at::Tensor result = kept(*store, forward);
  EXPECT_GT(store->counts().host_bytes(), 0);
  x.mul_(3);
  EXPECT_THROW(result.sum().backward(), UsageError);
}

TEST(HostOffload, LeavesNothingBehindWhereverAPassRunsOutOfMemory) {
  OffloadedRun each;
  each.run.gradients(each.pass());
  each.store->end_pass();
  const std::int64_t used = read_cpu_memory().used, taken = each.store->host_bytes();
  const auto parameters = each.run.network.module->parameters();
  const auto pass = [&] {
    return torch::autograd::grad({each.pass().square().mean()}, parameters);
  };
  std::int64_t failing = 0, failures = 0;
  for (bool refused = true; refused; failing += 3) {
    const std::int64_t before = cpu_refusal_count();
    fail_cpu_allocation(failing);
    try {
      catching_out_of_memory(pass);
    } catch (const OutOfMemory&) {
      ++failures;
    }
    fail_cpu_allocation(-1);
    refused = cpu_refusal_count() > before;
    each.store->abandon_pass();
    // What libtorch's engine had left to do goes when it runs again.
    torch::ones({1}).requires_grad_().sum().backward();
    ASSERT_EQ(read_cpu_memory().used, used) << failing;
  }
  EXPECT_GT(failures, 50);
  EXPECT_EQ(each.store->host_bytes(), taken);
  expect_equal(pass(), each.wanted);
}

TEST(HostOffload, NamesTheHostWhereItHasNoMemoryLeft) {
  OffloadedRun each;
  const std::int64_t used = read_cpu_memory().used;
  std::string message;
  for (std::int64_t failing = 0; message.empty() && failing < 1000; ++failing) {
    fail_cpu_allocation(failing);
    try {
      each.pass();
    } catch (const OutOfMemory& error) {
      message = error.what();
    } catch (const c10::OutOfMemoryError&) {
    }
    fail_cpu_allocation(-1);
    each.store->abandon_pass();
    ASSERT_EQ(each.store->host_bytes(), 0);
  }
  EXPECT_NE(message.find("host memory"), std::string::npos) << message;
  EXPECT_NE(message.find("try smaller passes"), std::string::npos) << message;
  EXPECT_EQ(read_cpu_memory().used, used);
  expect_equal(each.run.gradients(each.pass()), each.wanted);
}

TEST(HostArena, GivesThePlacesOfTheLastPassAgainOnceTheyAreFree) {
  HostArena arena(at::kCPU);
  const auto pass = [&] {
    arena.begin_pass();
    return std::vector{arena.room(1 << 20), arena.room(700'001), arena.room(80 << 20),
                       arena.room(1 << 20)};
  };
  std::vector<std::shared_ptr<std::byte>> first = pass();
  const std::vector<const void*> places = {first[0].get(), first[1].get(), first[2].get(),
                                           first[3].get()};
  const std::int64_t taken = arena.bytes();
  const std::vector<std::shared_ptr<std::byte>> apart = pass();
  for (std::size_t i = 0; i < places.size(); ++i) EXPECT_NE(apart[i].get(), places[i]) << i;
  EXPECT_EQ(arena.bytes(), 2 * taken);
  first.clear();
  first = pass();
  for (std::size_t i = 0; i < places.size(); ++i) EXPECT_EQ(first[i].get(), places[i]) << i;
  EXPECT_EQ(arena.bytes(), 2 * taken);
}

}  // namespace
}  // namespace triaccel
