#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>

#include "tests/step/step_parts.h"
#include "triaccel/base/error.h"
#include "triaccel/data/load_data.h"
#include "triaccel/device/cpu_memory.h"
#include "triaccel/models/families.h"
#include "triaccel/models/model_zoo.h"
#include "triaccel/step/step_runner.h"

namespace triaccel {
namespace {

constexpr double kRate = 1e-4;

/// A network whose last `bp_layers` backpropagate (negative: no zeroth-order options at all).
struct ElasticBench {
  ElasticBench(const ModelOptions& model, std::int64_t bp_layers, ZerothOrderOptions zeroth = {},
               std::function<at::Tensor(const at::Tensor&)> before = {}) {
    install_cpu_memory();
    torch::manual_seed(3);
    network = make_model(model);
    initialise_without_norms(*network.module);
    StepNetwork parts = step_network(network);
    if (before)
      parts.forward = [forward = network.forward, before](const at::Tensor& x) {
        return forward(before(x));
      };
    parameters = parts.parameters;
    StepRunnerOptions options;
    if (bp_layers >= 0) options.zeroth_order = zeroth;
    runner = std::make_unique<StepRunner>(parts, options, gauge, kCpu);
    plan.layers.resize(static_cast<std::size_t>(network.layers.size()));
    if (bp_layers < 0) return;
    for (std::int64_t i = 0; i + bp_layers < network.layers.size(); ++i)
      plan.layers[static_cast<std::size_t>(i)].gradient = GradientSource::ZerothOrder;
    runner->divide_layers(plan);
  }

  void run(std::int64_t batch, std::int64_t micro_batch, double rate = kRate) {
    plan.batch_size = batch;
    plan.micro_batch_size = micro_batch;
    runner->run(plan, data(), ids.narrow(0, 0, batch), {}, 0.05, rate);
  }

  std::vector<at::Tensor> weights() const {
    std::vector<at::Tensor> all;
    for (const at::Tensor& tensor : network.module->parameters())
      all.push_back(tensor.detach().clone());
    return all;
  }

  std::vector<at::Tensor> state() const {
    return step_state(network,
                      {&runner->optimizer(), &runner->gradient_control(), runner->zeroth_order()});
  }

  static const Dataset& data() { return synthetic_samples(); }

  MemoryGauge gauge{kCpu};
  at::Tensor ids = at::arange(64);
  Network network;
  std::vector<ParameterRef> parameters;
  std::unique_ptr<StepRunner> runner;
  StepPlan plan;
};

at::Tensor flat(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> parts;
  for (const at::Tensor& tensor : tensors) parts.push_back(tensor.reshape({-1}).to(at::kDouble));
  return at::cat(parts);
}

/// What the estimates of one step with many directions should be: gradient times direction.
std::vector<double> true_slopes(ElasticBench& bench, const ZerothOrderOptions& options,
                                std::int64_t batch) {
  const Batch samples = ElasticBench::data().gather(bench.ids.narrow(0, 0, batch), {});
  at::cross_entropy_loss(bench.network.forward(samples.inputs), samples.targets).backward();
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& parameter : bench.network.module->parameters()) {
    gradients.push_back(parameter.grad().clone());
    parameter.mutable_grad().reset();
  }
  const at::Tensor gradient = flat(gradients), here = flat(bench.weights());
  ZerothOrder directions(options, bench.parameters);
  directions.follow(bench.plan.layers);
  std::vector<double> slopes;
  for (std::int64_t d = 0; d < options.directions; ++d) {
    directions.go_to(2 * d + 1);
    slopes.push_back((flat(bench.weights()) - here).dot(gradient).item<double>() / options.epsilon);
  }
  directions.go_back();
  return slopes;
}

TEST(ZerothOrderStep, EstimatesTheSlopeAlongAThousandDirections) {
  double xx = 0, xy = 0, yy = 0;
  for (const std::uint64_t seed : {1, 2, 3, 4}) {
    const ZerothOrderOptions options{.epsilon = 1e-3, .directions = 250, .seed = seed};
    ElasticBench bench(kLenet, 0, options);
    const std::vector<double> expected = true_slopes(bench, options, 4);
    bench.run(4, 4, /*rate=*/0);
    const StepReport report = bench.runner->collect();
    ASSERT_EQ(report.zeroth_order.size(), 1u);
    const std::vector<float>& found = report.zeroth_order[0].gradients;
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      xx += expected[i] * expected[i];
      xy += expected[i] * found[i];
      yy += double{found[i]} * found[i];
    }
  }
  EXPECT_NEAR(xy / xx, 1, 0.01);
  EXPECT_GT(xy * xy / (xx * yy), 0.99);  // R squared of a line through the origin
}

TEST(ZerothOrderStep, EqualsBackpropagationBitForBitWhereAllLayersDoThat) {
  ElasticBench plain(kSlimResnet, -1), elastic(kSlimResnet, 21);
  for (int step = 0; step < 3; ++step)
    for (ElasticBench* bench : {&plain, &elastic}) {
      torch::manual_seed(step);
      bench->run(8, 4);
    }
  ASSERT_EQ(elastic.network.layers.size(), 21);
  EXPECT_TRUE(same_bytes(plain.weights(), elastic.weights()));
}

class TailOfAnElasticStep : public testing::TestWithParam<ZerothOrderOptions> {};

TEST_P(TailOfAnElasticStep, LearnsFromTheLastPassWithUnperturbedWeights) {
  ElasticBench elastic(kLenet, 2, GetParam()), frozen(kLenet, -1);
  for (std::size_t i = 0; i < 3; ++i) frozen.plan.layers[i].learning_rate_scale = 0;
  const std::vector<at::Tensor> from = elastic.weights();
  for (std::size_t i = 0; i < from.size(); ++i)
    frozen.network.module->parameters()[i].detach().copy_(from[i]);
  for (ElasticBench* bench : {&elastic, &frozen}) bench->run(16, 16, /*rate=*/0);
  const auto a = elastic.weights(), b = frozen.weights();
  for (std::size_t i = 6; i < a.size(); ++i) EXPECT_TRUE(at::equal(a[i], b[i])) << i;
  for (std::size_t i = 0; i < 6; ++i) EXPECT_TRUE(at::equal(a[i], from[i])) << i;
}

INSTANTIATE_TEST_SUITE_P(Perturbations, TailOfAnElasticStep,
                         testing::Values(ZerothOrderOptions{.epsilon = 1e-9},  // moves no weight
                                         ZerothOrderOptions{.one_sided = true},
                                         ZerothOrderOptions{.directions = 3, .one_sided = true},
                                         ZerothOrderOptions{.clean_pass = true}));

TEST(ZerothOrderStep, MakesNoExtraPassForAOneSidedEstimate) {
  int passes = 0;
  ElasticBench bench(kLenet, 1, {.directions = 2, .one_sided = true, .clean_pass = true},
                     [&](const at::Tensor& x) { return ++passes, x; });
  bench.run(8, 8);
  EXPECT_EQ(passes, 3) << "two directions and the unperturbed weights";
}

TEST(ZerothOrderStep, LeavesNothingBehindWhenForwardThrows) {
  int passes = 0, fails_at = -1;
  ElasticBench bench(kSlimResnet, 1, {.directions = 2}, [&](const at::Tensor& x) {
    if (passes++ == fails_at) throw std::runtime_error("the forward pass fails");
    return at::dropout(x, 0.1, true);
  });
  bench.run(8, 4);
  bench.runner->collect();
  for (fails_at = 0; fails_at < 8; ++fails_at) {
    passes = 0;
    const auto before = bench.state();
    EXPECT_THROW(bench.run(8, 4), std::runtime_error);
    EXPECT_TRUE(same_bytes(before, bench.state())) << "pass " << fails_at;
  }
  passes = 0;
  EXPECT_NO_THROW(bench.run(8, 4));
  EXPECT_EQ(passes, 8) << "two directions, two sides, two micro-batches";
}

struct ElasticFault {
  ModelOptions model;
  std::int64_t bp_layers;
  bool persistently;  // every allocation from the k-th on fails, or that one alone
};

class EveryElasticAllocation : public testing::TestWithParam<ElasticFault> {};

TEST_P(EveryElasticAllocation, MayFailAndLeavesNothingBehind) {
  const ElasticFault& fault = GetParam();
  const bool small = fault.model.name == "lenet5";
  ElasticBench bench(fault.model, fault.bp_layers, {.clean_pass = small && fault.bp_layers > 0});
  const std::int64_t batch = small ? 4 : 2;  // in passes of two samples
  bench.run(batch, 2);
  const std::int64_t first = cpu_allocation_count();
  bench.run(batch, 2);
  const std::int64_t allocations = cpu_allocation_count() - first;
  std::int64_t refused = 0;
  auto before = bench.state();
  for (std::int64_t k = 0; k < allocations; ++k) {
    fail_cpu_allocation(k, fault.persistently);
    try {
      bench.run(batch, 2);
      fail_cpu_allocation(-1);
      before = bench.state();
    } catch (const OutOfMemory&) {
      fail_cpu_allocation(-1);
      ++refused;
      ASSERT_TRUE(same_bytes(before, bench.state())) << "allocation " << k << " of " << allocations;
    }
  }
  EXPECT_GT(refused, allocations / 2);
  EXPECT_NO_THROW(bench.run(batch, 2));
}

std::vector<ElasticFault> every_elastic_fault() {
  std::vector<ElasticFault> all;
  for (const std::int64_t bp_layers : {0, 2})
    for (const bool persistently : {false, true}) all.push_back({kLenet, bp_layers, persistently});
  // Takes twenty times as long: each choice once.
  all.push_back({kSlimResnet, /*bp_layers=*/0, /*persistently=*/true});
  all.push_back({kSlimResnet, /*bp_layers=*/2, /*persistently=*/false});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Networks, EveryElasticAllocation,
                         testing::ValuesIn(every_elastic_fault()));

TEST(ZerothOrderStep, SkipsAStepWhoseLossIsNoNumber) {
  bool broken = false;
  ElasticBench bench(kLenet, 0, {}, [&](const at::Tensor& x) { return broken ? x * INFINITY : x; });
  bench.run(8, 8);
  bench.runner->collect();
  broken = true;
  const auto before = bench.weights();
  bench.run(8, 8);
  const StepReport report = bench.runner->collect();
  EXPECT_TRUE(same_bytes(before, bench.weights()));
  EXPECT_EQ(report.skipped_steps, 1);
  EXPECT_EQ(report.zeroth_order.front().gradients.front(), 0);
}

TEST(ZerothOrderStep, MovesRunningStatisticsOnce) {
  ElasticBench bench(kSlimResnet, 0, {.directions = 3});
  bench.run(8, 8);
  for (const auto& item : bench.network.module->named_buffers())
    if (item.key().ends_with("num_batches_tracked")) {
      EXPECT_EQ(item.value().item<std::int64_t>(), 1) << item.key();
    }
}

TEST(ZerothOrderStep, DrawsTheSameMasksOnBothSides) {
  // The loss does not depend on the weights, but on what was dropped.
  ElasticBench bench(kLenet, 0);
  Network& network = bench.network;
  StepNetwork parts{.forward =
                        [&](const at::Tensor& x) {
                          return network.forward(x) * 0 +
                                 at::dropout(x.flatten(1).narrow(1, 0, 10), 0.5, true);
                        },
                    .parameters = bench.parameters,
                    .layer_count = network.layers.size()};
  StepRunner runner(parts, {.zeroth_order = ZerothOrderOptions{.directions = 4}}, bench.gauge,
                    kCpu);
  bench.plan.batch_size = bench.plan.micro_batch_size = 16;
  runner.run(bench.plan, ElasticBench::data(), bench.ids.narrow(0, 0, 16), {}, 0, kRate);
  EXPECT_EQ(runner.collect().zeroth_order.front().gradients, std::vector<float>(4, 0));
}

TEST(ZerothOrderStep, IsRedoneFromTheFirstWeightsSeedAndSlopes) {
  const ZerothOrderOptions options{
      .directions = 2, .clip = 3, .momentum = 0.7, .momentum_steps = 3, .seed = 9};
  ElasticBench trained(kLenet, 0, options), redone(kLenet, 0, options);
  std::vector<ZerothOrderStep> steps;
  for (int step = 0; step < 7; ++step) {
    trained.run(8, 8, kRate / (1 + step));
    if (step % 3 == 2 || step == 6)
      for (ZerothOrderStep& done : trained.runner->collect().zeroth_order) steps.push_back(done);
  }
  ASSERT_EQ(steps.size(), 7u);
  for (const ZerothOrderStep& step : steps) redone.runner->zeroth_order()->redo(step);
  EXPECT_FALSE(same_bytes(trained.weights(), ElasticBench(kLenet, 0, options).weights()));
  EXPECT_TRUE(same_bytes(trained.weights(), redone.weights()));
}

TEST(ZerothOrderStep, LearnsByTheLossAloneAndRemembersEverySlope) {
  torch::manual_seed(1);
  const at::Tensor weight = at::zeros({10, 16});
  MemoryGauge gauge(kCpu);
  StepRunner runner(
      {.forward =
           [&](const at::Tensor& x) {
             return at::adaptive_avg_pool2d(x.mean(1, true), {4, 4}).flatten(1).mm(weight.t());
           },
       .parameters = {{"w", weight, 0}},
       .layer_count = 1},
      {.zeroth_order = ZerothOrderOptions{}}, gauge, kCpu);
  const StepPlan plan{.batch_size = 8,
                      .micro_batch_size = 8,
                      .layers = {{.gradient = GradientSource::ZerothOrder}}};
  const at::Tensor ids = at::arange(8);
  constexpr std::int64_t steps = ZerothOrder::kStepsRemembered + 100;
  for (std::int64_t step = 0; step < steps; ++step)
    runner.run(plan, ElasticBench::data(), ids, {}, 0, 0.05);
  const auto taken = runner.collect().zeroth_order;
  ASSERT_EQ(taken.size(), static_cast<std::size_t>(steps));
  for (std::int64_t step = 0; step < steps; ++step)
    EXPECT_EQ(taken[static_cast<std::size_t>(step)].step, step);
  runner.run(plan, ElasticBench::data(), ids, {}, 0, 0);
  EXPECT_LT(runner.collect().loss, 0.8 * std::log(10));
}

/// Most bytes in use while `work` runs, above what was.
template <typename Work>
std::int64_t peak_of(Work&& work) {
  const std::int64_t before = read_cpu_memory().used;
  reset_cpu_memory_peak();
  work();
  return read_cpu_memory().peak - before;
}

TEST(ZerothOrderStep, NeedsTheMemoryOfInference) {
  ElasticBench bench(kLenet, 0), tail(kLenet, 1), whole(kLenet, 5);
  for (ElasticBench* each : {&bench, &tail, &whole}) each->run(64, 64);
  const std::int64_t inference = peak_of([&] {
    const torch::NoGradGuard no_grad;
    bench.network.forward(ElasticBench::data().gather(bench.ids, {}).inputs);
  });
  const std::int64_t losses = peak_of([&] { bench.run(64, 64); });
  const std::int64_t one_layer = peak_of([&] { tail.run(64, 64); });
  const std::int64_t backprop = peak_of([&] { whole.run(64, 64); });
  EXPECT_LT(static_cast<double>(losses), 1.02 * static_cast<double>(inference));
  EXPECT_LT(static_cast<double>(one_layer), 1.02 * static_cast<double>(inference));
  EXPECT_GT(static_cast<double>(backprop), 1.05 * static_cast<double>(inference));
}

TEST(ZerothOrderStep, RefusesPlansItWasNotMadeFor) {
  ElasticBench plain(kLenet, -1);
  plain.plan.layers[0].gradient = GradientSource::ZerothOrder;
  EXPECT_THROW(plain.run(8, 8), UsageError);
}

}  // namespace
}  // namespace triaccel
