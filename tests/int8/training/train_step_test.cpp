#include "triaccel/int8/training/train_step.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "tests/int8/plain_step.h"
#include "tests/int8/samples.h"
#include "triaccel/base/error.h"
#include "triaccel/int8/training/random_stream.h"
#include "triaccel/int8/training/recipe.h"
#include "triaccel/int8/training/step_memory.h"

namespace triaccel::int8 {
namespace {

Network small_lenet() { return lenet5({.image_size = 8, .classes = 5, .width = 3}); }
Network small_pointnet() { return pointnet({.points = 21, .classes = 5, .width = 4}); }
Network small_mlp() {
  return make_network({{.name = "a", .in_channels = 19, .out_channels = 21},
                       {.name = "b", .in_channels = 21, .out_channels = 5, .relu = false}});
}
/// A convolution without padding or pooling before one with both.
Network odd_convolutions() {
  return make_network({{.name = "a",
                        .kind = LayerKind::Convolution,
                        .in_channels = 2,
                        .out_channels = 3,
                        .height = 8,
                        .width = 6,
                        .kernel = 3},
                       {.name = "b",
                        .kind = LayerKind::Convolution,
                        .in_channels = 3,
                        .out_channels = 2,
                        .height = 6,
                        .width = 4,
                        .kernel = 3,
                        .padding = 1,
                        .pooling = Pooling::Max2x2},
                       {.name = "c", .in_channels = 12, .out_channels = 5, .relu = false}});
}

/// A parallel-for on threads of its own.
Threads on_threads(std::int32_t& count) {
  return {.count = count,
          .run =
              [](void* context, std::int32_t items, Work work, void* argument) {
                std::atomic<std::int32_t> next{0};
                std::vector<std::jthread> threads;
                for (std::int32_t worker = 0; worker < *static_cast<std::int32_t*>(context);
                     ++worker)
                  threads.emplace_back([&, worker] {
                    for (std::int32_t i; (i = next++) < items;) work(argument, i, worker);
                  });
              },
          .context = &count};
}

std::uint64_t hash_after(const Network& network, const StepOptions& options, int steps,
                         std::int32_t samples = 6) {
  State state = initial_state(network, 4);
  const Samples data(network, samples, 2);
  Arena arena;
  for (int i = 0; i < steps; ++i) train_step(state, data.batch(), options, arena);
  return state_hash(state);
}

void expect_plain(const Network& network, StepOptions options) {
  State fast = initial_state(network, 3);
  State plain = fast;
  const Samples data(network, 6, 1);
  Arena arena;
  for (int i = 0; i < 3; ++i) {
    const std::int32_t slope = plain::step(plain, data.batch(), options);
    const StepReport report = train_step(fast, data.batch(), options, arena);
    ASSERT_EQ(report.slope, slope) << "step " << i;
    ASSERT_EQ(fast.weights, plain.weights) << "step " << i << ", bp_layers " << options.bp_layers;
  }
}

TEST(TrainStep, EqualsItsDefinitionForEveryBoundary) {
  for (const Network& network : {small_lenet(), small_pointnet(), small_mlp(), odd_convolutions()})
    for (std::int32_t bp = 0; bp <= network.layer_count(); ++bp)
      expect_plain(network, {.seed = 9, .bp_layers = bp, .micro_batch = 4});
}

TEST(TrainStep, EqualsItsDefinitionWhereSavedDataSharesMemory) {
  const Network network =
      make_network({{.name = "a", .in_channels = 400, .out_channels = 21},
                    {.name = "b", .in_channels = 21, .out_channels = 17},
                    {.name = "c", .in_channels = 17, .out_channels = 5, .relu = false}});
  for (const std::int32_t bp : {1, 2})
    for (const BackpropPass pass : {BackpropPass::Minus, BackpropPass::Clean})
      for (const Exponents exponents : {Exponents::PerSample, Exponents::PerTensor}) {
        const StepOptions options = {
            .seed = 7, .bp_layers = bp, .backprop_pass = pass, .exponents = exponents};
        ASSERT_TRUE(kept_plan(network, 6, options).late_in_rows) << "bp_layers " << bp;
        expect_plain(network, options);
      }
}

TEST(TrainStep, EqualsItsDefinitionInThePapersConventions) {
  for (const Network& network : {small_lenet(), small_pointnet()})
    for (const std::int32_t bp : {0, 2, network.layer_count()})
      expect_plain(network, paper_conventions({.seed = 8, .bp_layers = bp, .rate_exponent = 3}));
}

TEST(TrainStep, EqualsItsDefinitionInEveryVariant) {
  const Network network = small_lenet();
  expect_plain(network, {.bp_layers = 2, .backprop_pass = BackpropPass::Clean});
  expect_plain(network, {.bp_layers = 4, .backprop_pass = BackpropPass::Clean, .micro_batch = 1});
  expect_plain(network, {.bp_layers = 2, .shared_shifts = false});
  expect_plain(network, {.bp_layers = 2, .head = Head::Frozen});
  expect_plain(network, {.bp_layers = 1, .exponents = Exponents::PerTensor});
  expect_plain(network, {.noise = {.reach = 7, .zero_share = 30000}, .rate_exponent = 0});
  expect_plain(network, {.bp_layers = 1, .slope_exponent = 8, .rate_exponent = 2});
  expect_plain(network, {.noise = {.reach = 63}, .slope_exponent = 0, .rate_exponent = 15});
  expect_plain(network, {.slope_exponent = 9, .rounding = UpdateRounding::PseudoStochastic});
}

TEST(TrainStep, DoesNotDependOnThreads) {
  for (const std::int32_t bp : {0, 2, 5}) {
    const std::uint64_t alone = hash_after(small_lenet(), {.bp_layers = bp}, 3);
    for (std::int32_t count : {2, 7})
      EXPECT_EQ(hash_after(small_lenet(), {.bp_layers = bp, .threads = on_threads(count)}, 3),
                alone)
          << count << " threads, bp_layers " << bp;
  }
  std::int32_t count = 3;
  StepOptions paper = paper_conventions({.bp_layers = 4});
  const std::uint64_t alone = hash_after(small_pointnet(), paper, 2);
  paper.threads = on_threads(count);
  EXPECT_EQ(hash_after(small_pointnet(), paper, 2), alone);
}

TEST(TrainStep, DoesNotDependOnMicroBatchesOrKernel) {
  for (const std::int32_t bp : {0, 2, 5}) {
    const std::uint64_t whole = hash_after(small_lenet(), {.bp_layers = bp, .micro_batch = 0}, 3);
    for (const std::int32_t micro : {1, 4, 64})
      EXPECT_EQ(hash_after(small_lenet(), {.bp_layers = bp, .micro_batch = micro}, 3), whole);
    std::int32_t kernels = 0;
    const ProductKernel* kernel = product_kernels(kernels);
    for (; kernels > 0; --kernels, ++kernel) {
      if (!kernel->available()) continue;
      EXPECT_EQ(hash_after(small_lenet(), {.bp_layers = bp, .kernel = kernel->name}, 3), whole)
          << kernel->name;
    }
  }
}

// The weights, bit for bit, of a run that must come out alike on every machine and back end.
TEST(TrainStep, GivesTheRecordedWeights) {
  StepOptions options = {.seed = 1,
                         .noise = {.reach = 15},
                         .rate_exponent = 3,
                         .gradient_bits = 3,
                         .saturated_share = 65536};
  EXPECT_EQ(hash_after(small_lenet(), options, 4), 4233423662746854736u);
  options.bp_layers = 2;
  EXPECT_EQ(hash_after(small_lenet(), options, 4), 12389437753885954872u);
  options.bp_layers = 8;
  EXPECT_EQ(hash_after(small_pointnet(), options, 4), 17380008053569694792u);
}

TEST(TrainStep, WithoutNoiseTrainsTheTailOnFrozenFeatures) {
  for (const std::int32_t bp : {1, 2})
    EXPECT_EQ(hash_after(small_lenet(), {.bp_layers = bp, .noise = {.reach = 0}}, 3),
              hash_after(small_lenet(), {.bp_layers = bp, .head = Head::Frozen}, 3));
}

TEST(TrainStep, WithoutNoiseSeesNoDifference) {
  State state = initial_state(small_lenet(), 1);
  const State before = state;
  const Samples data(state.network, 4, 1);
  Arena arena;
  const StepReport report = train_step(state, data.batch(), {.noise = {.reach = 0}}, arena);
  EXPECT_EQ(report.slope, 0);
  EXPECT_EQ(report.loss[0], report.loss[1]);
  EXPECT_EQ(state.weights, before.weights);
  EXPECT_EQ(state.step, 1u);
}

TEST(TrainStep, DoesNotDependOnTheOrderOfSamplesWithoutBackpropagation) {
  const Network network = small_lenet();
  const Samples data(network, 6, 2);
  Samples turned = data;
  std::rotate(turned.inputs.begin(), turned.inputs.begin() + network.inputs(), turned.inputs.end());
  std::rotate(turned.labels.begin(), turned.labels.begin() + 1, turned.labels.end());
  State a = initial_state(network, 1), b = a;
  Arena arena;
  const StepReport first = train_step(a, data.batch(), {}, arena);
  const StepReport second = train_step(b, turned.batch(), {}, arena);
  EXPECT_EQ(first.loss[0] - first.loss[1], second.loss[0] - second.loss[1]);
  EXPECT_EQ(a, b);
}

TEST(TrainStep, LearnsTheSamples) {
  for (const std::int32_t bp : {0, 1, 5}) {
    State state = initial_state(small_lenet(), 2);
    const Samples data(state.network, 10, 3);
    Arena arena;
    const std::int64_t before = evaluate(state, data.batch(), {}, arena).loss;
    for (int i = 0; i < 60; ++i)
      train_step(state, data.batch(), {.seed = 5, .bp_layers = bp}, arena);
    const Evaluation after = evaluate(state, data.batch(), {}, arena);
    EXPECT_LT(after.loss, bp == 5 ? before * 3 / 4 : before) << "bp_layers " << bp;
  }
}

TEST(TrainStep, RejectsWhatItCannotDo) {
  State state = initial_state(small_lenet(), 1);
  Samples data(state.network, 3, 1);
  Arena arena;
  EXPECT_THROW(train_step(state, data.batch(), {.bp_layers = 6}, arena), UsageError);
  EXPECT_THROW(train_step(state, data.batch(), {.noise = {.reach = 64}}, arena), UsageError);
  EXPECT_THROW(train_step(state, data.batch(), {.kernel = "abacus"}, arena), UsageError);
  data.labels[1] = 5;
  EXPECT_THROW(train_step(state, data.batch(), {}, arena), UsageError);
  EXPECT_EQ(state, initial_state(small_lenet(), 1));
}

TEST(LossSlope, IsTheDifferenceInWholeUnitsOrItsSign) {
  EXPECT_EQ(loss_slope(-7, 4, kSignOnly), -1);
  EXPECT_EQ(loss_slope(0, 4, kSignOnly), 0);
  EXPECT_EQ(loss_slope(7, 4, 2), 0);  // units of 16, to the nearest
  EXPECT_EQ(loss_slope(8, 4, 2), 1);
  EXPECT_EQ(loss_slope(-23, 4, 2), -1);
  EXPECT_EQ(loss_slope(24, 4, 2), 2);
  EXPECT_EQ(loss_slope(std::int64_t{1} << 61, 4, 2), kMostSlope);
}

TEST(ReplayStep, RebuildsARunFromItsSlopes) {
  const Network network = small_lenet();
  const Samples data(network, 6, 2);
  for (const std::int32_t bp : {0, 2}) {
    StepOptions options = {.seed = 3, .bp_layers = bp};
    State trained = initial_state(network, 6);
    State rebuilt = trained;
    Arena arena;
    for (int i = 0; i < 12; ++i) {
      options.rate_exponent = i / 4;
      replay_step(rebuilt, train_step(trained, data.batch(), options, arena).slope, options);
    }
    const std::int64_t end = bp == 0 ? network.weight_bytes : network.offsets[3];
    EXPECT_TRUE(
        std::equal(trained.weights.begin(), trained.weights.begin() + end, rebuilt.weights.begin()))
        << "bp_layers " << bp;
    EXPECT_EQ(trained.step, rebuilt.step);
  }
}

TEST(TrainStep, WidensTheGridOfSaturatedBackpropagatedLayersOnly) {
  State state = initial_state(small_lenet(), 1);
  std::fill(state.weights.begin(), state.weights.end(), std::int8_t{127});
  const std::vector<std::int32_t> before = state.exponents;
  const Samples data(state.network, 4, 1);
  Arena arena;
  train_step(state, data.batch(), {.bp_layers = 2, .saturated_share = 655}, arena);
  for (std::size_t l = 0; l < 5; ++l)
    EXPECT_EQ(state.exponents[l], before[l] + (l >= 3 ? 1 : 0)) << "layer " << l;
}

TEST(TrainStep, LeavesLayersBetweenThePerturbedAndTheBackpropagatedOnesAsTheyAre) {
  for (const Network& network : {small_lenet(), small_pointnet()}) {
    const StepOptions options = {
        .seed = 3, .bp_layers = 1, .zo_layers = 2, .slope_exponent = kSignOnly, .rate_exponent = 0};
    const Samples data(network, 6, 2);
    State state = initial_state(network, 6);
    const State before = state;
    Arena arena;
    std::int32_t slope = 0;
    while (slope == 0) slope = train_step(state, data.batch(), options, arena).slope;
    EXPECT_EQ(arena.high_water(), step_memory(network, 6, options).arena());
    const auto changed = [&](std::int32_t l) {
      const auto from = network.offsets[static_cast<std::size_t>(l)];
      const auto count = network.layers[static_cast<std::size_t>(l)].weight_count();
      return !std::equal(state.weights.begin() + from, state.weights.begin() + from + count,
                         before.weights.begin() + from);
    };
    for (std::int32_t l = 0; l < network.layer_count(); ++l)
      EXPECT_EQ(changed(l), l < 2 || l == network.layer_count() - 1) << "layer " << l;
  }
}

TEST(TrainStep, WithoutPerturbedLayersIsThatOfFrozenOnes) {
  const Network network = small_pointnet();
  StepOptions options = {.seed = 3, .bp_layers = 2, .zo_layers = 0};
  State state = initial_state(network, 6), frozen = state;
  const Samples data(network, 6, 2);
  Arena arena;
  train_step(state, data.batch(), options, arena);
  options = {.seed = 3, .bp_layers = 2, .head = Head::Frozen};
  train_step(frozen, data.batch(), options, arena);
  EXPECT_EQ(state, frozen);
}

TEST(StepMemory, IsWhatTheStepUses) {
  std::int32_t three = 3;
  for (const Network& network : {small_lenet(), small_pointnet(), small_mlp()}) {
    const Samples data(network, 6, 2);
    for (const Exponents exponents : {Exponents::PerSample, Exponents::PerTensor}) {
      for (std::int32_t bp = 0; bp <= network.layer_count(); ++bp) {
        for (const bool parallel : {false, true}) {
          StepOptions options = {.bp_layers = bp, .exponents = exponents, .micro_batch = 4};
          if (bp == 3) options.micro_batch = 0;
          if (bp == 1) options.backprop_pass = BackpropPass::Clean;
          if (parallel) options.threads = on_threads(three);
          State state = initial_state(network, 1);
          Arena arena;
          train_step(state, data.batch(), options, arena);
          EXPECT_EQ(arena.high_water(), step_memory(network, 6, options).arena())
              << "bp_layers " << bp;
          Arena evaluating;
          evaluate(state, data.batch(), options, evaluating);
          EXPECT_EQ(evaluating.high_water(), evaluation_memory(network, 6, options).arena());
        }
      }
    }
  }
}

TEST(StepMemory, OfTwoBackpropagatedLayersIsThatOfNone) {
  const Network network = lenet5({});
  const std::int64_t none = step_memory(network, 32, {}).total();
  for (const std::int32_t bp : {1, 2}) {
    EXPECT_TRUE(kept_plan(network, 32, {.bp_layers = bp}).late_in_rows);
    EXPECT_EQ(step_memory(network, 32, {.bp_layers = bp}).total(), none) << "bp_layers " << bp;
  }
}

TEST(StepMemory, SharesNoRowsThatAnotherMicroBatchOverwrites) {
  EXPECT_FALSE(kept_plan(lenet5({}), 32, {.bp_layers = 2, .micro_batch = 16}).late_in_rows);
}

TEST(StepMemory, OfSharedRowsIsNeverMoreThanOfSeparateOnes) {
  for (const Network& network : {lenet5({}), pointnet({.points = 64}), small_mlp()})
    for (const std::int32_t batch : {1, 32, 200})
      for (std::int32_t bp = 1; bp <= network.layer_count(); ++bp) {
        const StepOptions options = {.bp_layers = bp, .micro_batch = 0};
        const KeptPlan plan = kept_plan(network, batch, options);
        const StepMemory memory = step_memory(network, batch, options);
        if (!plan.late_in_rows) continue;
        EXPECT_LE(plan.rows_in_use + plan.late, plan.rows);
        EXPECT_LT(memory.arena(),
                  plan.early + plan.late + std::max(memory.forward + plan.rows, memory.backward));
      }
}

TEST(StepSchedule, TakesEachStepForAnEqualPartOfTheRun) {
  const StepSchedule down = {.first = 4, .last = 1};
  EXPECT_EQ(down.at(0, 8), 4);
  EXPECT_EQ(down.at(1, 8), 4);
  EXPECT_EQ(down.at(2, 8), 3);
  EXPECT_EQ(down.at(7, 8), 1);
  EXPECT_EQ(down.at(9, 8), 1);
  EXPECT_EQ((StepSchedule{.first = 3, .last = 5}).at(5, 6), 5);
}

// Compares a step of weights of zero with the exact one: slope · z / 2^rate_exponent.
TEST(Recipe, RoundsTheSmallestZerothOrderStepsWithLittleNoise) {
  State state = initial_state(lenet5({}), 1);
  std::fill(state.weights.begin(), state.weights.end(), std::int8_t{0});
  const StepOptions options = with_recipe({.seed = 5}, recipe_for(state.network, 0), 99, 100);
  constexpr std::int32_t kTypicalSlope = 3;
  replay_step(state, kTypicalSlope, options);
  const Noise noise = make_noise(options.noise);
  const std::uint64_t key = random_key(options.seed, RandomStream::Perturbation, 0);
  double exact_squares = 0, rounding_squares = 0;
  for (std::int64_t i = 0; i < state.network.weight_bytes; ++i) {
    const auto random =
        static_cast<std::uint16_t>(random_half_word(key, static_cast<std::uint64_t>(i)));
    const double exact = -kTypicalSlope * noise_value(noise, random) /
                         static_cast<double>(1 << options.rate_exponent);
    exact_squares += exact * exact;
    const double rounding = state.weights[static_cast<std::size_t>(i)] - exact;
    rounding_squares += rounding * rounding;
  }
  EXPECT_LT(rounding_squares, 1.5 * exact_squares);
}

TEST(PaperBytes, GivesThePublishedRatios) {
  const Network network = lenet5({});
  // FP32 of the same convention: 2.743 MB and 18.923 MB at batches of 32 and 256.
  EXPECT_NEAR(2.743e6 / static_cast<double>(paper_bytes(network, 32, 0)), 1.60, 0.005);
  EXPECT_NEAR(18.923e6 / static_cast<double>(paper_bytes(network, 256, 0)), 1.46, 0.005);
}

TEST(StepMemory, OfLeNet5IsAFifthOfFloats) {
  // FP32 needs 1254 KiB at batch 32, 7085 at 256, weights and activations alive at once.
  const Network network = lenet5({});
  for (const std::int32_t bp : {0, 1, 2}) {
    EXPECT_LT(step_memory(network, 32, {.bp_layers = bp}).total(), 1254 * 1024 / 5);
    EXPECT_LT(step_memory(network, 256, {.bp_layers = bp}).total(), 7085 * 1024 / 20);
  }
}

}  // namespace
}  // namespace triaccel::int8
