#include "triaccel/int8/training/train_step.h"

#include "triaccel/base/error.h"
#include "triaccel/int8/layers/backward.h"
#include "triaccel/int8/training/random_stream.h"
#include "triaccel/int8/training/step_memory.h"

namespace triaccel::int8 {
namespace {

void check(const char* who, const State& state, const Batch& batch, const StepOptions& options) {
  require(state.network.layer_count() > 0 && !state.weights.empty(), who,
          "the state has no network; start from initial_state");
  require(batch.size > 0, who, "the batch is empty");
  require(options.threads.count >= 1 && options.threads.count <= kMostWorkers, who,
          "the number of threads must be 1 to ", kMostWorkers, ", got ", options.threads.count);
  for (std::int32_t b = 0; b < batch.size; ++b)
    require(batch.labels[b] >= 0 && batch.labels[b] < state.network.classes(), who, "label ",
            batch.labels[b], " of sample ", b, " is not one of ", state.network.classes(),
            " classes");
}

void check_training(const char* who, const State& state, std::int32_t batch_size,
                    const StepOptions& options) {
  const Network& network = state.network;
  require(options.bp_layers >= 0 && options.bp_layers <= network.layer_count(), who,
          "bp_layers must be 0 to ", network.layer_count(), ", got ", options.bp_layers);
  require(options.zo_layers >= 0, who, "zo_layers must be at least 0, got ", options.zo_layers);
  require(options.noise.reach >= 0 && options.noise.reach <= kMostReach, who,
          "noise.reach must be 0 to ", kMostReach, ", got ", options.noise.reach);
  require(options.noise.zero_share <= kMostZeroShare, who, "noise.zero_share must be at most ",
          kMostZeroShare, ", got ", options.noise.zero_share);
  require(options.rate_exponent >= 0 && options.rate_exponent <= kMostRateExponent, who,
          "rate_exponent must be 0 to ", kMostRateExponent, ", got ", options.rate_exponent);
  require(options.slope_exponent >= kSignOnly && options.slope_exponent <= 24, who,
          "slope_exponent must be ", kSignOnly, " to 24, got ", options.slope_exponent);
  require(options.gradient_bits >= 1 && options.gradient_bits <= 7, who,
          "gradient_bits must be 1 to 7, got ", options.gradient_bits);
  const std::int32_t most = most_backward_samples(network, boundary_of(network, options));
  require(batch_size <= most, who, "gradients of the last ", options.bp_layers,
          " layers fit int32 up to a batch of ", most, ", got ", batch_size,
          "; use a smaller --batch or fewer --bp-layers");
}

Product kernel_of(const char* who, const StepOptions& options) {
  const ProductKernel* kernel = find_product_kernel(options.kernel);
  require(kernel != nullptr, who, "unknown kernel '", options.kernel, "'; use auto or scalar");
  require(kernel->available(), who, "this CPU does not support kernel '", options.kernel,
          "'; use auto");
  return kernel->product;
}

void update_head(State& state, std::int32_t slope, const StepOptions& options) {
  apply_slope_update(
      state,
      {.slope = slope,
       .layers = perturbed_of(state.network, options),
       .rate_exponent = options.rate_exponent,
       .rounding = options.rounding,
       .noise = make_noise(options.noise),
       .noise_key = random_key(options.seed, RandomStream::Perturbation, state.step),
       .rounding_key = random_key(options.seed, RandomStream::SignUpdate, state.step)},
      options.threads);
}

void widen_tail(State& state, const StepOptions& options) {
  if (options.saturated_share >= 65536) return;
  const std::uint64_t key = random_key(options.seed, RandomStream::WeightHalving, state.step);
  for (std::int32_t l = boundary_of(state.network, options); l < state.network.layer_count(); ++l)
    widen_saturated_layer(state, l, options.saturated_share, key);
}

}  // namespace

StepOptions paper_conventions(StepOptions options) {
  options.exponents = Exponents::PerTensor;
  options.rounding = UpdateRounding::PseudoStochastic;
  options.shared_shifts = false;
  options.slope_exponent = kSignOnly;
  return options;
}

StepReport train_step(State& state, const Batch& batch, const StepOptions& options, Arena& arena) {
  const char* who = "train_step";
  check(who, state, batch, options);
  check_training(who, state, batch.size, options);
  const Network& network = state.network;
  arena.reserve(step_memory(network, batch.size, options).arena());
  const ArenaScope scope(arena);
  const std::int32_t boundary = boundary_of(network, options);
  const Streams streams = streams_of(network, options);

  Forward forward = forward_job(network, batch, options, streams);
  forward.state = &state;
  forward.product = kernel_of(who, options);
  forward.noise_key = random_key(options.seed, RandomStream::Perturbation, state.step);
  forward.error_key = random_key(options.seed, RandomStream::LossError, state.step);
  forward.kept = take_kept(network, batch, boundary, kept_plan(network, batch.size, options), arena,
                           forward.rows);
  const ForwardResult result = run_forward(forward, arena);

  StepReport report = {.loss = {result.loss[0], result.loss[streams.perturbed() ? 1 : 0]},
                       .correct = result.correct[0]};
  report.slope = loss_slope(report.loss[0] - report.loss[1], batch.size, options.slope_exponent);
  if (options.bp_layers > 0) {
    Backward backward = backward_job(network, batch.size, options);
    backward.kept = forward.kept;
    backward.rounding_key = random_key(options.seed, RandomStream::GradientUpdate, state.step);
    run_backward(state, backward, arena);
    widen_tail(state, options);
  }
  replay_step(state, report.slope, options);
  return report;
}

void replay_step(State& state, std::int32_t slope, const StepOptions& options) {
  if (options.head == Head::ZerothOrder) update_head(state, slope, options);
  ++state.step;
}

Evaluation evaluate(const State& state, const Batch& batch, const StepOptions& options,
                    Arena& arena) {
  const char* who = "evaluate";
  check(who, state, batch, options);
  arena.reserve(evaluation_memory(state.network, batch.size, options).arena());
  Forward forward = forward_job(state.network, batch, options, {});
  forward.state = &state;
  forward.product = kernel_of(who, options);
  const ForwardResult result = run_forward(forward, arena);
  return {.correct = result.correct[0], .loss = result.loss[0]};
}

}  // namespace triaccel::int8
