#include "triaccel/step/step_runner.h"
#include "tests/step/step_parts.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <limits>

#include "triaccel/base/error.h"
#include "triaccel/data/epoch_order.h"
#include "triaccel/data/load_data.h"
#include "triaccel/device/cpu_memory.h"
#include "triaccel/models/model_zoo.h"

namespace triaccel {
namespace {

/// A small network with a runner of its own and everything a step may change.
struct Bench {
  explicit Bench(const ModelOptions& model, const StepRunnerOptions& options = {},
                 bool dropout = false) {
    install_cpu_memory();
    torch::manual_seed(3);
    network = make_model(model);
    StepNetwork parts = step_network(network);
    const auto named = network.module->named_parameters();
    for (const LayerInfo& layer : network.layers.layers())
      parts.weights.push_back(named[layer.parameters.front()]);
    if (dropout)
      parts.forward = [this](const at::Tensor& x) {
        return network.forward(at::dropout(x, 0.5, /*train=*/true));
      };
    runner = std::make_unique<StepRunner>(parts, options, gauge, kCpu);
    plan.layers.resize(static_cast<std::size_t>(network.layers.size()));
  }

  void run(std::int64_t batch, std::int64_t micro_batch, double learning_rate = 0.05) {
    plan.batch_size = batch;
    plan.micro_batch_size = micro_batch;
    runner->run(plan, data(), ids.narrow(0, 0, batch), {}, learning_rate);
  }

  /// Every byte a step may change: parameters, buffers, optimizer, loss scale, generator, score.
  std::vector<at::Tensor> state() const {
    return step_state(network, {&runner->optimizer(), &runner->gradient_control()});
  }

  static const Dataset& data() { return synthetic_samples(); }

  MemoryGauge gauge{kCpu};
  at::Tensor ids = at::arange(64);  // outside the step, whose allocations are made to fail
  Network network;
  std::unique_ptr<StepRunner> runner;
  StepPlan plan;
};

/// Layers that compute as plans say, 16-bit ones in FP32 on rounded values: libtorch's own FP16
/// convolutions take a thousand times as long on a CPU.
StepRunnerOptions planned(const ModelOptions& model, StepRunnerOptions options = {}) {
  constexpr ConvolutionKernel emulated{.arithmetic = Arithmetic::Fp32};
  options.layers = LayerOptions{};
  options.layers->kernels.layers.assign(static_cast<std::size_t>(make_model(model).layers.size()),
                                        {.bf16 = emulated, .fp16 = emulated});
  return options;
}

/// Every rung in turn, so that a network of a few layers has them all.
std::vector<LayerPlan> every_rung(std::int64_t layers, std::int64_t shift = 0) {
  constexpr Precision rungs[] = {Precision::Fp16, Precision::Bf16, Precision::Fp32};
  std::vector<LayerPlan> plans;
  for (std::int64_t i = 0; i < layers; ++i) plans.push_back({.compute = rungs[(i + shift) % 3]});
  return plans;
}

TEST(StepRunner, TrainsTheSameInMicroBatches) {
  Bench whole(kLenet), split(kLenet);
  whole.run(32, 32);
  split.run(32, 5);
  const auto a = whole.network.module->parameters(), b = split.network.module->parameters();
  for (std::size_t i = 0; i < a.size(); ++i)
    EXPECT_LT((a[i] - b[i]).norm().item<double>(), 1e-5 * a[i].norm().item<double>() + 1e-9);
  EXPECT_NEAR(whole.runner->collect().loss, split.runner->collect().loss, 1e-5);
}

TEST(StepRunner, NeverLeavesASingleSampleToBatchNorm) {
  Bench bench(kSlimResnet);
  for (const std::int64_t batch : {3, 5, 7, 9}) EXPECT_NO_THROW(bench.run(batch, 2)) << batch;
}

TEST(StepRunner, ReportsTheLossAndAccuracyOfItsSamples) {
  Bench bench(kLenet);
  const Batch batch = Bench::data().gather(at::arange(24), {});
  const at::Tensor logits = bench.network.forward(batch.inputs);
  const double loss = at::cross_entropy_loss(logits, batch.targets).item<double>();
  const double accuracy = logits.argmax(1).eq(batch.targets).to(at::kDouble).mean().item<double>();
  bench.run(24, 24);
  const StepReport report = bench.runner->collect();
  EXPECT_NEAR(report.loss, loss, 1e-5);
  EXPECT_DOUBLE_EQ(report.accuracy, accuracy);
  EXPECT_GT(report.gradient_norm, 0);
  EXPECT_EQ(report.layers.size(), static_cast<std::size_t>(bench.network.layers.size()));
  EXPECT_GT(report.memory.peak, 0);
  EXPECT_EQ(bench.runner->collect().loss, 0) << "collecting starts a new interval";
}

TEST(StepRunner, MeasuresEveryLayersGradient) {
  Bench bench(kLenet);
  bench.run(16, 16);
  const StepReport report = bench.runner->collect();
  for (std::int64_t id = 0; id < bench.network.layers.size(); ++id) {
    const LayerSignals& layer = report.layers[static_cast<std::size_t>(id)];
    EXPECT_EQ(layer.count, bench.network.layers[id].parameter_count);
    EXPECT_GT(layer.variance(), 0) << bench.network.layers[id].name;
    EXPECT_EQ(layer.nonfinite, 0);
  }
}

TEST(StepRunner, SkipsAStepWhoseGradientsAreNotFinite) {
  Bench bench(kLenet);
  bench.run(8, 8);
  bench.runner->collect();
  const auto forward = bench.network.forward;
  StepNetwork poisoned{.layer_count = bench.network.layers.size()};
  poisoned.forward = [&](const at::Tensor& x) {
    return forward(x) * std::numeric_limits<float>::infinity();
  };
  for (const auto& item : bench.network.module->named_parameters())
    poisoned.parameters.push_back(
        {item.key(), item.value(), bench.network.layers.layer_of(item.key())});
  StepRunner runner(poisoned, {}, bench.gauge, kCpu);
  const auto before = bench.state();
  bench.plan.batch_size = bench.plan.micro_batch_size = 8;
  runner.run(bench.plan, Bench::data(), at::arange(8), {}, 0.05);
  EXPECT_TRUE(same_bytes(before, bench.state()));
  const StepReport report = runner.collect();
  EXPECT_EQ(report.skipped_steps, 1);
  EXPECT_FALSE(std::isfinite(report.loss)) << "no sample had a finite loss";
}

TEST(StepRunner, FollowsThePerLayerLearningRate) {
  Bench bench(kLenet, {.optimizer = {.weight_decay = 0}});
  bench.plan.layers[0].learning_rate_scale = 0;
  const auto before = bench.network.module->parameters();
  const at::Tensor first = before[0].detach().clone(), last = before.back().detach().clone();
  bench.run(8, 8);
  EXPECT_TRUE(at::equal(bench.network.module->parameters()[0], first));
  EXPECT_FALSE(at::equal(bench.network.module->parameters().back(), last));
}

TEST(StepRunner, RejectsAPlanOfAnotherNetwork) {
  Bench bench(kLenet);
  bench.plan.layers.pop_back();
  EXPECT_THROW(bench.run(8, 8), UsageError);
  bench.plan.layers.resize(static_cast<std::size_t>(bench.network.layers.size()));
  EXPECT_THROW(bench.run(8, 9), UsageError);
}

struct Fault {
  ModelOptions model;
  OptimizerOptions optimizer;
  bool planned;       // layers of mixed precisions, or libtorch's FP32
  bool persistently;  // every allocation from the k-th on fails, or that one alone
  std::int64_t every = 1;
};

class EveryAllocation : public testing::TestWithParam<Fault> {};

// Out of memory at any allocation of a step: an OutOfMemory and nothing changed, or no error and a
// step done. Then the next step succeeds.
TEST_P(EveryAllocation, MayFailAndLeavesNothingBehind) {
  const Fault& fault = GetParam();
  StepRunnerOptions options{.optimizer = fault.optimizer, .gradients = {.clip_norm = 1}};
  if (fault.planned) options = planned(fault.model, options);
  Bench bench(fault.model, options, /*dropout=*/true);
  if (fault.planned) bench.plan.layers = every_rung(bench.network.layers.size());
  const std::int64_t pass = fault.model.name == "lenet5" ? 2 : 4;  // of a step of four samples
  bench.run(4, pass);
  const std::int64_t first = cpu_allocation_count();
  bench.run(4, pass);
  const std::int64_t allocations = cpu_allocation_count() - first;
  ASSERT_GT(allocations, 20);
  std::int64_t refused = 0;
  auto before = bench.state();
  std::int64_t tried = 0;
  for (std::int64_t k = 0; k < allocations; k += fault.every) {
    ++tried;
    fail_cpu_allocation(k, fault.persistently);
    try {
      bench.run(4, pass);
      fail_cpu_allocation(-1);
      before = bench.state();
    } catch (const OutOfMemory&) {
      fail_cpu_allocation(-1);
      ++refused;
      ASSERT_TRUE(same_bytes(before, bench.state())) << "allocation " << k << " of " << allocations;
    }
  }
  EXPECT_GT(refused, tried / 2);
  EXPECT_NO_THROW(bench.run(4, pass));
}

/// Updates allocate nothing, so that all optimizers have the same allocations: one network has them
/// fail under every optimizer, the larger one all of them under SGD and some under the others.
std::vector<Fault> every_fault() {
  std::vector<Fault> all;
  for (const ModelOptions& model : {kLenet, kSlimResnet}) {
    all.push_back({model, {}, /*planned=*/false, /*persistently=*/true});
    for (const bool persistently : {false, true})
      all.push_back({model, {}, /*planned=*/true, persistently});
  }
  const std::vector<OptimizerOptions> others = {
      {.kind = OptimizerKind::AdamW},
      {.kind = OptimizerKind::AdamW, .state = StateFormat::Fp8},
      {.kind = OptimizerKind::AdaLomo},
      {.kind = OptimizerKind::ApolloMini}};
  for (const OptimizerOptions& optimizer : others) {
    all.push_back({kLenet, optimizer, /*planned=*/true, /*persistently=*/true});
    all.push_back({kSlimResnet, optimizer, /*planned=*/true, /*persistently=*/false, /*every=*/5});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Networks, EveryAllocation, testing::ValuesIn(every_fault()));

/// Compression draws other offsets in every pass: what had no effect must not count as one.
TEST(StepRunner, CompressesAsIfRehearsedAndFailedStepsHadNotBeen) {
  const auto trained = [](bool disturbed) {
    Bench bench(kSlimResnet, {.saved = SavedStoreOptions{.seed = 1}});
    bench.plan.batch_size = bench.plan.micro_batch_size = 11;
    bench.runner->take_census(bench.plan, Bench::data(), bench.ids.narrow(0, 0, 11));
    const std::vector<SavedStatistics> tensors = tensors_of(bench.runner->census());
    std::vector<SavedPlan> plans(tensors.size());
    for (std::size_t i = 0; i < tensors.size(); ++i)
      if (tensors[i].kind == SavedClass::NormInput)
        plans[i] = {.codec = SavedCodec::Groups, .eighths = 16};
    bench.plan.saved = plans_by_entry(bench.runner->census(), tensors, plans);
    const std::int64_t before = cpu_allocation_count();
    bench.run(8, 4);
    const std::int64_t allocations = cpu_allocation_count() - before;
    if (disturbed) {
      bench.runner->rehearse(bench.plan, Bench::data(), bench.ids.narrow(0, 0, 8), {});
      fail_cpu_allocation(allocations / 2, /*persistently=*/true);
      EXPECT_THROW(bench.run(8, 4), OutOfMemory);
      fail_cpu_allocation(-1);
    }
    bench.run(8, 4);
    EXPECT_EQ(bench.runner->saved()->passes().item<std::int64_t>(), 4);
    return bench.state();
  };
  EXPECT_TRUE(same_bytes(trained(false), trained(true)));
}

TEST(StepRunner, UpdatesWithoutAllocating) {
  for (const OptimizerKind kind : {OptimizerKind::Sgd, OptimizerKind::AdamW, OptimizerKind::AdaLomo,
                                   OptimizerKind::ApolloMini}) {
    Bench bench(kSlimResnet, {.optimizer = {.kind = kind}, .weight_average_decay = 0.9});
    bench.network.forward(Bench::data().gather(at::arange(4), {}).inputs).sum().backward();
    const at::Tensor rates = at::full({bench.network.layers.size()}, 0.1f);
    GradientControl& gradients = bench.runner->gradient_control();
    const std::int64_t before = cpu_allocation_count();
    gradients.measure();
    bench.runner->optimizer().update(gradients.update_inputs(rates));
    bench.runner->weight_average()->update(gradients.step_control());
    gradients.finish_step();
    EXPECT_EQ(cpu_allocation_count(), before);
  }
}

TEST(PlannedStep, LearnsInEveryPrecision) {
  for (std::int64_t shift = 0; shift < 3; ++shift) {
    Bench bench(kLenet, planned(kLenet));
    bench.plan.layers = every_rung(bench.network.layers.size(), shift);
    bench.run(64, 64);
    const double first = bench.runner->collect().loss;
    for (int step = 0; step < 14; ++step) bench.run(64, 64);
    bench.runner->collect();
    bench.run(64, 64);
    EXPECT_LT(bench.runner->collect().loss, 0.8 * first) << shift;
  }
}

TEST(PlannedStep, GivesTheSameGradientInMicroBatches) {
  Bench whole(kLenet, planned(kLenet)), split(kLenet, planned(kLenet));
  whole.plan.layers = split.plan.layers = every_rung(whole.network.layers.size());
  whole.run(32, 32);
  split.run(32, 8);
  const auto a = whole.network.module->parameters(), b = split.network.module->parameters();
  for (std::size_t i = 0; i < a.size(); ++i)
    EXPECT_LT((a[i] - b[i]).norm().item<double>(), 1e-3 * a[i].norm().item<double>() + 1e-9);
}

/// A network one of whose layers gets an infinite gradient at its output when asked to.
struct Poisoned {
  explicit Poisoned(std::int64_t layer) : bench(kSlimResnet, planned(kSlimResnet)) {
    StepNetwork parts{.layer_count = bench.network.layers.size()};
    const auto named = bench.network.module->named_parameters();
    for (const LayerInfo& info : bench.network.layers.layers())
      parts.weights.push_back(named[info.parameters.front()]);
    for (const auto& item : named)
      parts.parameters.push_back(
          {item.key(), item.value(), bench.network.layers.layer_of(item.key())});
    parts.buffers = bench.network.module->buffers();
    poison = parts.weights[static_cast<std::size_t>(layer)];
    parts.forward = [this](const at::Tensor& x) {
      // Reaches the weight through the loss: its gradient is infinite, the value 0.
      at::Tensor logits = bench.network.forward(x);
      if (armed) {
        const at::Tensor extra = poison.sum() * 0;
        extra.register_hook([](const at::Tensor& g) {
          return at::full_like(g, std::numeric_limits<float>::infinity());
        });
        logits = logits + extra;
      }
      return logits;
    };
    runner = std::make_unique<StepRunner>(parts, planned(kSlimResnet), bench.gauge, kCpu);
  }

  void run() {
    bench.plan.batch_size = bench.plan.micro_batch_size = 8;
    runner->run(bench.plan, Bench::data(), bench.ids.narrow(0, 0, 8), {}, 0.05);
  }

  Bench bench;
  at::Tensor poison;
  bool armed = false;
  std::unique_ptr<StepRunner> runner;
};

TEST(PlannedStep, SkipsAnInfiniteGradientOfAnyLayerInAnyPrecisionAndGoesOn) {
  const std::int64_t layers = make_model(kSlimResnet).layers.size();
  for (std::int64_t layer = 0; layer < layers; layer += 5) {
    for (std::int64_t shift = 0; shift < 3; ++shift) {
      Poisoned test(layer);
      test.bench.plan.layers = every_rung(layers, shift);
      test.run();
      test.runner->collect();
      const auto parameters = test.bench.network.module->parameters();
      const auto buffers = test.bench.network.module->buffers();
      std::vector<at::Tensor> before;
      for (const at::Tensor& tensor : parameters) before.push_back(tensor.detach().clone());
      for (const at::Tensor& tensor : buffers) before.push_back(tensor.clone());
      test.armed = true;
      test.run();
      const StepReport report = test.runner->collect();
      EXPECT_EQ(report.skipped_steps, 1);
      EXPECT_EQ(report.skipped_layer, layer);
      std::vector<at::Tensor> after;
      for (const at::Tensor& tensor : parameters) after.push_back(tensor.detach().clone());
      for (const at::Tensor& tensor : buffers) after.push_back(tensor.clone());
      EXPECT_TRUE(same_bytes(before, after)) << "layer " << layer << ", shift " << shift;
      test.armed = false;
      test.run();
      EXPECT_EQ(test.runner->collect().skipped_steps, 0) << "the next step is clean";
    }
  }
}

}  // namespace
}  // namespace triaccel
