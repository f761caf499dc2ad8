#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "tests/step/gpu_step.h"
#include "triaccel/base/error.h"
#include "triaccel/data/load_data.h"
#include "triaccel/device/cuda_memory.h"
#include "triaccel/device/device_choice.h"
#include "triaccel/device/side_stream.h"
#include "triaccel/models/model_zoo.h"
#include "triaccel/step/step_runner.h"

namespace triaccel {
namespace {

constexpr std::int64_t kSamples = 2048;

/// A network on the GPU with a runner of its own; every step takes the next samples.
struct Bench {
  Bench(const ModelOptions& model, StepRunnerOptions options, bool graphs) : stream(kGpu) {
    at::manual_seed(3);
    network = make_model(model);
    network.module->to(kGpu);
    for (at::Tensor& weight : network.module->parameters())
      if (weight.dim() == 4) weight.set_data(weight.contiguous(at::MemoryFormat::ChannelsLast));
    data = load_data({.name = "synthetic", .train_samples = kSamples, .channels_last = true}, kGpu);
    StepNetwork parts = step_network(network);
    const auto named = network.module->named_parameters();
    for (const LayerInfo& layer : network.layers.layers())
      parts.weights.push_back(named[layer.parameters.front()]);
    options.graphs = graphs;
    runner = std::make_unique<StepRunner>(parts, options, gauge, kGpu);
    plan.layers.resize(static_cast<std::size_t>(network.layers.size()));
    plan.batch_size = plan.micro_batch_size = 32;
    ids = at::arange(kSamples, at::TensorOptions(at::kLong).device(kGpu));
  }

  void step() {
    const std::int64_t first = 16 * (steps++ % 8);
    runner->run(plan, *data.train, ids.narrow(0, first, plan.batch_size),
                {.augment = true, .epoch = steps / 8, .seed = 1},
                0.02 / static_cast<double>(steps));
  }

  /// How long a replay of a step in passes of so many samples takes.
  double replay_seconds(std::int64_t pass) {
    StepPlan timed = plan;
    timed.micro_batch_size = pass;
    const at::Tensor some = ids.narrow(0, 0, plan.batch_size);
    const GatherOptions gather{.augment = true, .epoch = 0, .seed = 1};
    runner->rehearse(timed, *data.train, some, gather);
    return runner->replay_seconds(timed, *data.train, some, gather);
  }

  std::vector<at::Tensor> state() const {
    std::vector<at::Tensor> all;
    for (const at::Tensor& tensor : network.module->parameters())
      all.push_back(tensor.detach().clone());
    for (const at::Tensor& tensor : network.module->buffers()) all.push_back(tensor.clone());
    return all;
  }

  WorkStream stream;
  MemoryGauge gauge{kGpu};
  Network network;
  LoadedData data;
  std::unique_ptr<StepRunner> runner;
  StepPlan plan;
  at::Tensor ids;
  std::int64_t steps = 0;
};

/// The largest distance between two tensors, in norms of the first.
double distance(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const at::Tensor x = a[i].to(at::kDouble), y = b[i].to(at::kDouble);
    largest = std::max(largest, ((x - y).norm() / (x.norm() + 1e-12)).item<double>());
  }
  return largest;
}

struct Setting {
  std::string name;
  ModelOptions model;
  std::vector<Precision> rungs;  // of the layers in turn; empty: libtorch's own kernels
  bool autocast = false;
};

StepRunnerOptions options_of(const Setting& setting) {
  StepRunnerOptions options;
  if (!setting.rungs.empty()) options.layers = LayerOptions{};
  options.autocast = setting.autocast;
  options.gradients.loss_scaling = setting.autocast;
  return options;
}

void set_rungs(StepPlan& plan, const Setting& setting, std::size_t shift = 0) {
  for (std::size_t i = 0; i < plan.layers.size() && !setting.rungs.empty(); ++i)
    plan.layers[i].compute = setting.rungs[(i + shift) % setting.rungs.size()];
}

const ModelOptions kResnet{.name = "resnet18", .width = 16};
const ModelOptions kEfficientNet{.name = "efficientnet-b0"};

const std::vector<Setting> kSettings = {
    {"fp32", kResnet, {}},
    {"amp", kResnet, {}, true},
    {"planned_fp32", kResnet, {Precision::Fp32}},
    {"planned_bf16", kResnet, {Precision::Bf16}},
    {"mixed", kResnet, {Precision::Fp16, Precision::Bf16, Precision::Fp32}},
    {"cifar_stem", {.name = "resnet18", .stem = "cifar", .width = 16}, {Precision::Bf16}},
    {"with_early_updates", {.name = "resnet18"}, {Precision::Bf16, Precision::Fp32}},
    {"efficientnet", kEfficientNet, {Precision::Bf16}},
    {"efficientnet_mixed", kEfficientNet, {Precision::Fp16, Precision::Bf16, Precision::Fp32}},
    {"vit", {.name = "vit-small", .width = 64}, {Precision::Bf16}},
    {"lenet", {.name = "lenet5"}, {Precision::Bf16}}};

class CapturedStep : public GpuStepTest<Setting> {};

TEST_P(CapturedStep, TakesTheSameStepsWithNormsOrSegmentsRecomputed) {
  if (GetParam().rungs.empty()) GTEST_SKIP() << "libtorch's own norms";
  const auto after_steps = [&](bool norms, double segments) {
    StepRunnerOptions options = options_of(GetParam());
    options.layers->recompute_norms = norms;
    options.layers->recompute_segments = segments;
    Bench bench(GetParam().model, options, /*graphs=*/true);
    set_rungs(bench.plan, GetParam());
    for (int i = 0; i < 3; ++i) bench.step();
    return bench.state();
  };
  const std::vector<at::Tensor> kept = after_steps(false, 0);
  const std::vector<at::Tensor> norms = after_steps(true, 0), segments = after_steps(false, 1),
                                half = after_steps(false, 0.5);
  for (std::size_t i = 0; i < kept.size(); ++i) {
    EXPECT_TRUE(at::equal(norms[i], kept[i])) << i;
    EXPECT_TRUE(at::equal(segments[i], kept[i])) << i;
    EXPECT_TRUE(at::equal(half[i], kept[i])) << i;
  }
}

TEST_P(CapturedStep, FollowsTheEagerTrajectory) {
  std::vector<std::vector<at::Tensor>> eager;
  {
    Bench bench(GetParam().model, options_of(GetParam()), /*graphs=*/false);
    set_rungs(bench.plan, GetParam());
    for (int i = 0; i < 6; ++i) bench.step(), eager.push_back(bench.state());
  }
  Bench bench(GetParam().model, options_of(GetParam()), /*graphs=*/true);
  set_rungs(bench.plan, GetParam());
  for (int i = 0; i < 6; ++i) {
    bench.step();
    EXPECT_LT(distance(eager[static_cast<std::size_t>(i)], bench.state()), 2e-3) << "step " << i;
  }
  EXPECT_EQ(bench.runner->graphs()->counts().captures, 1);
  EXPECT_EQ(bench.runner->graphs()->counts().replays, 6);
}

/// Batch and precisions change while it runs; what was captured before is found again.
TEST_P(CapturedStep, ChangesPlansWithoutAGlitch) {
  const auto run = [&](bool graphs, std::vector<std::vector<at::Tensor>>& states) {
    Bench bench(GetParam().model, options_of(GetParam()), graphs);
    const std::int64_t batches[] = {32, 32, 32, 48, 48, 48, 32, 32, 32};
    for (std::size_t i = 0; i < std::size(batches); ++i) {
      bench.plan.batch_size = bench.plan.micro_batch_size = batches[i];
      set_rungs(bench.plan, GetParam(), i / 3);
      bench.step();
      states.push_back(bench.state());
    }
    return graphs ? bench.runner->graphs()->counts() : GraphCounts{};
  };
  std::vector<std::vector<at::Tensor>> eager, captured;
  run(false, eager);
  const GraphCounts counts = run(true, captured);
  for (std::size_t i = 0; i < eager.size(); ++i)
    EXPECT_LT(distance(eager[i], captured[i]), 5e-3) << "step " << i;
  EXPECT_GE(counts.captures, 3);
}

TEST_P(CapturedStep, GivesTheSameBitsRunAfterRun) {
  std::vector<at::Tensor> first;
  for (int run = 0; run < 2; ++run) {
    Bench bench(GetParam().model, options_of(GetParam()), /*graphs=*/true);
    set_rungs(bench.plan, GetParam());
    for (int i = 0; i < 5; ++i) bench.step();
    if (run == 0) {
      first = bench.state();
      continue;
    }
    const std::vector<at::Tensor> second = bench.state();
    for (std::size_t i = 0; i < first.size(); ++i)
      EXPECT_TRUE(at::equal(first[i], second[i])) << "tensor " << i;
  }
}

TEST_P(CapturedStep, IsTimedWithoutAnEffect) {
  const auto after_steps = [&](bool timed) {
    Bench bench(GetParam().model, options_of(GetParam()), /*graphs=*/true);
    set_rungs(bench.plan, GetParam());
    for (int i = 0; i < 4; ++i) {
      if (timed && i % 2 == 0) {
        double whole = 1e9, parts = 1e9;
        for (int run = 0; run < 5; ++run) {  // others may use the GPU, too
          whole = std::min(whole, bench.replay_seconds(32));
          parts = std::min(parts, bench.replay_seconds(4));
        }
        EXPECT_GT(whole, 0);
        EXPECT_GT(parts, whole);  // eight passes
      }
      bench.step();
    }
    return bench.state();
  };
  const std::vector<at::Tensor> plain = after_steps(false), timed = after_steps(true);
  for (std::size_t i = 0; i < plain.size(); ++i)
    EXPECT_TRUE(at::equal(plain[i], timed[i])) << "tensor " << i;
}

INSTANTIATE_TEST_SUITE_P(Settings, CapturedStep, testing::ValuesIn(kSettings),
                         [](const auto& which) { return which.param.name; });

class CapturedStepState : public CapturedStep {};

TEST_F(CapturedStepState, InEightBitsTakesTheSameStepsRunAfterRun) {
  const auto after_five_steps = [] {
    Bench bench(kResnet, {.optimizer = {.state = StateFormat::Fp8}, .layers = LayerOptions{}},
                /*graphs=*/true);
    for (LayerPlan& layer : bench.plan.layers) layer.compute = Precision::Bf16;
    for (int i = 0; i < 5; ++i) bench.step();
    EXPECT_EQ(bench.runner->graphs()->counts().replays, 5);
    return bench.state();
  };
  const std::vector<at::Tensor> once = after_five_steps(), again = after_five_steps();
  for (std::size_t i = 0; i < once.size(); ++i) EXPECT_TRUE(at::equal(again[i], once[i])) << i;
}

class CapturedStepFaults : public CapturedStep {};

TEST_F(CapturedStepFaults, AStepThatDoesNotFitChangesNothing) {
  Bench bench(kResnet, options_of(kSettings[3]), /*graphs=*/true);
  set_rungs(bench.plan, kSettings[3]);
  for (int i = 0; i < 4; ++i) bench.step();
  const auto before = bench.state();
  bench.gauge.set_limit(bench.gauge.used() + (6 << 20));
  bench.plan.batch_size = bench.plan.micro_batch_size = 384;
  EXPECT_THROW(bench.step(), OutOfMemory);
  bench.gauge.set_limit(0);
  const auto after = bench.state();
  for (std::size_t i = 0; i < before.size(); ++i)
    EXPECT_TRUE(at::equal(before[i], after[i])) << "tensor " << i;
  bench.plan.batch_size = bench.plan.micro_batch_size = 32;
  for (int i = 0; i < 3; ++i) EXPECT_NO_THROW(bench.step());
}

/// Every limit from none to the smallest that still trains: what fails leaves nothing behind that
/// would make a smaller step fail.
TEST_F(CapturedStepFaults, LeavesNoMemoryBehindWhenStepsFail) {
  Bench bench(kResnet, options_of(kSettings[3]), /*graphs=*/true);
  set_rungs(bench.plan, kSettings[3]);
  const auto runs = [&](std::int64_t batch) {
    bench.plan.batch_size = bench.plan.micro_batch_size = batch;
    try {
      bench.step();
      return true;
    } catch (const OutOfMemory&) {
      return false;
    }
  };
  ASSERT_TRUE(runs(16));
  const std::int64_t used = bench.gauge.used();
  int failures = 0;
  for (std::int64_t room = 64; room > 8; room -= 3) {
    bench.gauge.set_limit(used + (room << 20));
    for (const std::int64_t batch : {1024, 512, 256, 128}) failures += !runs(batch);
    EXPECT_LE(bench.gauge.used(), used + (6 << 20)) << "with room for " << room << " MiB";
  }
  bench.gauge.set_limit(0);
  EXPECT_GT(failures, 8);
  EXPECT_TRUE(runs(16));
}

TEST_F(CapturedStepFaults, AnInfiniteLossSkipsTheStep) {
  Bench bench(kResnet, options_of(kSettings[3]), /*graphs=*/true);
  set_rungs(bench.plan, kSettings[3]);
  for (int i = 0; i < 3; ++i) bench.step();
  bench.runner->collect();
  at::Tensor weight = bench.network.module->parameters().front();
  const float kept = weight.flatten()[0].item<float>();
  const at::NoGradGuard no_grad;
  weight.as_strided({1}, {1}).fill_(std::numeric_limits<float>::infinity());
  const auto before = bench.state();
  bench.step();
  const auto after = bench.state();
  for (std::size_t i = 0; i < before.size(); ++i)
    EXPECT_TRUE(at::equal(before[i], after[i])) << "tensor " << i;
  EXPECT_EQ(bench.runner->collect().skipped_steps, 1);
  weight.as_strided({1}, {1}).fill_(kept);
  bench.step();
  EXPECT_EQ(bench.runner->collect().skipped_steps, 0);
}

/// What training takes from the device, of ResNet-18 with the CIFAR stem at batch 96.
class CapturedStepMemory : public testing::Test {
 protected:
  using Plan = std::vector<Precision>;  // of the layers in turn; empty: libtorch's own kernels

  void SetUp() override {
    if (!cuda_available()) GTEST_SKIP() << "this machine has no CUDA device";
    set_arithmetic(/*deterministic=*/false);
    allow_expandable_segments();
  }

  /// All layers in BF16, but those given.
  static Plan lifted(std::initializer_list<std::size_t> layers) {
    Plan plan(kLayers, Precision::Bf16);
    for (const std::size_t layer : layers) plan[layer] = Precision::Fp32;
    return plan;
  }

  /// Most bytes reserved while the plans run one after the other, weights included.
  static double reserved_by(const std::vector<Plan>& plans) {
    release_cuda_cache();
    reset_cuda_memory_peak();
    const std::int64_t before = read_cuda_memory().reserved;
    const Setting setting{"", kModel, plans.front()};
    Bench bench(kModel, options_of(setting), /*graphs=*/true);
    bench.plan.batch_size = bench.plan.micro_batch_size = 96;
    for (const Plan& plan : plans) {
      set_rungs(bench.plan, {"", kModel, plan});
      for (int i = 0; i < 3; ++i) bench.step();
    }
    bench.runner->collect();  // waits
    return static_cast<double>(read_cuda_memory().reserved - before);
  }

  static constexpr std::size_t kLayers = 21;
  inline static const ModelOptions kModel{.name = "resnet18", .stem = "cifar"};
};

TEST_F(CapturedStepMemory, OfPlansInTurnIsThatOfTheLargest) {
  const Plan low = lifted({}), first = lifted({0}), middle = lifted({5, 6});
  const double largest =
      std::max({reserved_by({low}), reserved_by({first}), reserved_by({middle})});
  const double together = reserved_by({low, first, low, middle, low});
  RecordProperty("largest_mb", std::to_string(largest / 1e6));
  RecordProperty("together_mb", std::to_string(together / 1e6));
  EXPECT_LE(together, 1.05 * largest);
}

TEST_F(CapturedStepMemory, OfLiftedLayersStaysBelowFourFifthsOfFp32) {
  const double fp32 = reserved_by({Plan()});
  RecordProperty("fp32_mb", std::to_string(fp32 / 1e6));
  for (const Plan& plan : {lifted({}), lifted({0, 1}), lifted({5, 6}), lifted({1, 2, 3, 4})}) {
    const double mixed = reserved_by({lifted({}), plan});
    RecordProperty("mixed_mb", std::to_string(mixed / 1e6));
    EXPECT_LE(mixed, 0.8 * fp32);
  }
}

}  // namespace
}  // namespace triaccel
