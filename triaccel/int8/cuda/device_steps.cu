#include "triaccel/int8/cuda/device_steps.h"

#include <algorithm>

#include "triaccel/base/divide_up.h"
#include "triaccel/int8/cuda/launch_check.cuh"
#include "triaccel/int8/training/step_memory.h"

namespace triaccel::int8::cuda {
namespace {

constexpr std::int64_t kAlignment = 256;

/// Bump allocator over one block of memory.
struct Cursor {
  std::int8_t* memory = nullptr;
  std::int64_t used = 0;

  template <typename T>
  T* take(std::int64_t count) {
    std::int8_t* at = memory + used;
    const std::int64_t bytes = count * static_cast<std::int64_t>(sizeof(T));
    used += round_up(bytes, kAlignment);
    return reinterpret_cast<T*>(at);
  }
};

void check(const Network& network, std::int32_t batch_size, const StepOptions& options) {
  const char* who = "--device cuda";
  require(batch_size > 0 && batch_size <= 65535, who,
          "the batch must have 1 to 65535 samples, got ", batch_size);
  require(options.exponents == Exponents::PerSample, who,
          "CUDA supports only exponents per sample; use --device cpu for exponents per tensor");
  const std::int32_t most = most_backward_samples(network, boundary_of(network, options));
  require(batch_size <= most, who, "gradients of the last ", options.bp_layers,
          " layers fit int32 up to a batch of ", most, ", got ", batch_size);
}

std::int64_t shared_memory_limit() {
  int device = 0;
  int bytes = 0;
  check_cuda(cudaGetDevice(&device), "DeviceSteps");
  check_cuda(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
             "DeviceSteps");
  return bytes - 1024;  // for static shared memory of kernels
}

void copy(void* to, const void* from, std::int64_t bytes, cudaMemcpyKind kind,
          cudaStream_t stream) {
  check_cuda(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), kind, stream),
             "DeviceSteps");
}

}  // namespace

bool device_steps_built() { return true; }

DeviceSteps::DeviceSteps(const Network& network, std::int32_t batch_size,
                         const StepOptions& options, std::int32_t input_exponent)
    : rate_exponent_(options.rate_exponent), gradient_bits_(options.gradient_bits) {
  check(network, batch_size, options);
  const Streams streams = streams_of(network, options);
  step_.network =
      make_device_network(network, boundary_of(network, options), perturbed_of(network, options),
                          streams.count, streams.backprop >= 0);
  step_.batch = batch_size;
  step_.input_exponent = input_exponent;
  step_.backprop = streams.backprop;
  step_.shared_shifts = options.shared_shifts;
  step_.rounding = options.rounding;
  step_.slope_exponent = options.slope_exponent;
  step_.saturated_share = std::min(options.saturated_share, 65536u);
  step_.seed = options.seed;
  step_.noise = make_noise(options.noise);
  step_.weight_bytes = network.weight_bytes;
  const std::int64_t limit = shared_memory_limit();
  sample_ = sample_layout(step_.network, limit);
  reserve_sample_memory(sample_);
  std::int32_t point_bytes = 0;
  for (std::int32_t l = 0; l < step_.network.features; ++l) {
    if (step_.network.layers[l].kind == LayerKind::Points)
      point_bytes = std::max(point_bytes, point_layer_bytes(step_.network.layers[l]));
  }
  require(point_bytes <= limit, "--device cuda", "a tile of points takes ", point_bytes,
          " bytes of shared memory, but a block has only ", limit, "; use --device cpu");
  if (point_bytes > 0) reserve_point_memory(point_bytes);
  lay_out(nullptr);
}

void DeviceSteps::lay_out(std::int8_t* memory) {
  const DeviceNetwork& network = step_.network;
  const std::int64_t batch = step_.batch;
  const std::int64_t passes = batch * network.streams;
  std::int64_t points[2] = {0, 0};
  std::int64_t pooled = 0;
  for (std::int32_t l = 0; l < network.features; ++l) {
    const DeviceLayer& layer = network.layers[l];
    if (layer.kind != LayerKind::Points) continue;
    std::int64_t& most = layer.pooling == Pooling::None ? points[l % 2] : pooled;
    most = std::max(most, passes * layer.outputs);
  }
  Cursor cursor = {.memory = memory};
  step_.progress = cursor.take<DeviceProgress>(1);
  step_.weights = cursor.take<std::int8_t>(step_.weight_bytes);
  step_.exponents = cursor.take<std::int32_t>(kMostLayers);
  step_.inputs = cursor.take<std::int8_t>(batch * network.layers[0].inputs);
  step_.labels = cursor.take<std::int32_t>(batch);
  step_.panels = cursor.take<std::int8_t>(network.panel_bytes);
  step_.point_sums[0] = cursor.take<std::int32_t>(points[0]);
  step_.point_sums[1] = cursor.take<std::int32_t>(points[1]);
  step_.kept = cursor.take<std::int8_t>(batch * network.kept_bytes);
  step_.errors = cursor.take<std::int8_t>(batch * network.error_bytes);
  step_.error_exponents = cursor.take<std::int32_t>(kMostLayers * batch);
  step_.gradients = cursor.take<std::int32_t>(network.gradient_count);
  const std::int64_t zeroed = cursor.used;
  step_.result = cursor.take<DeviceStepResult>(1);
  step_.largest = cursor.take<std::uint32_t>(network.features * passes);
  step_.gradient_largest = cursor.take<std::uint32_t>(kMostLayers);
  step_.saturated = cursor.take<std::uint32_t>(kMostLayers);
  step_.zeroed_words = (cursor.used - zeroed) / 4;
  const std::int64_t lowest = cursor.used;
  step_.common_exponent = cursor.take<std::int32_t>(kMostLayers);
  step_.pooled = cursor.take<std::int32_t>(pooled);
  step_.lowest_words = (cursor.used - lowest) / 4;
  bytes_ = cursor.used;
}

void DeviceSteps::place(void* device_memory) { lay_out(static_cast<std::int8_t*>(device_memory)); }

void DeviceSteps::upload(const State& state, cudaStream_t stream) {
  require(static_cast<std::int64_t>(state.weights.size()) == step_.weight_bytes, "DeviceSteps",
          "the state has ", state.weights.size(), " weight bytes, the network ",
          step_.weight_bytes);
  const DeviceProgress progress = {.step = state.step,
                                   .now = state.step,
                                   .rate_exponent = rate_exponent_,
                                   .gradient_bits = gradient_bits_};
  copy(step_.progress, &progress, sizeof(progress), cudaMemcpyHostToDevice, stream);
  copy(step_.weights, state.weights.data(), step_.weight_bytes, cudaMemcpyHostToDevice, stream);
  copy(step_.exponents, state.exponents.data(),
       static_cast<std::int64_t>(state.exponents.size() * sizeof(std::int32_t)),
       cudaMemcpyHostToDevice, stream);
  // Steps do not write the padding of panels, which must be zero.
  check_cuda(
      cudaMemsetAsync(step_.panels, 0, static_cast<std::size_t>(step_.network.panel_bytes), stream),
      "DeviceSteps");
}

void DeviceSteps::download(State& state, cudaStream_t stream) const {
  DeviceProgress progress = {};
  copy(&progress, step_.progress, sizeof(progress), cudaMemcpyDeviceToHost, stream);
  copy(state.weights.data(), step_.weights, step_.weight_bytes, cudaMemcpyDeviceToHost, stream);
  copy(state.exponents.data(), step_.exponents,
       static_cast<std::int64_t>(state.exponents.size() * sizeof(std::int32_t)),
       cudaMemcpyDeviceToHost, stream);
  check_cuda(cudaStreamSynchronize(stream), "DeviceSteps");
  state.step = progress.step;
}

void DeviceSteps::set_rates(std::int32_t rate_exponent, std::int32_t gradient_bits,
                            cudaStream_t stream) {
  rate_exponent_ = rate_exponent;
  gradient_bits_ = gradient_bits;
  const std::int32_t rates[2] = {rate_exponent, gradient_bits};
  copy(&step_.progress->rate_exponent, rates, sizeof(rates), cudaMemcpyHostToDevice, stream);
}

void DeviceSteps::enqueue(std::int32_t samples, cudaStream_t stream) const {
  require(samples > 0 && samples <= step_.batch, "DeviceSteps::enqueue", "1 to ", step_.batch,
          " samples, got ", samples);
  StepArguments step = step_;
  step.batch = samples;  // may be fewer than the layout: every buffer is used as a prefix
  launch_prepare(step, stream);
  for (std::int32_t l = 0; l < step.network.features; ++l) {
    if (step.network.layers[l].kind == LayerKind::Points) launch_point_layer(step, l, stream);
  }
  launch_sample_pass(step, sample_, stream);
  if (step.backprop >= 0) launch_gradients(step, stream);
  launch_update(step, stream);
}

StepReport DeviceSteps::report(cudaStream_t stream) const {
  DeviceStepResult result = {};
  copy(&result, step_.result, sizeof(result), cudaMemcpyDeviceToHost, stream);
  check_cuda(cudaStreamSynchronize(stream), "DeviceSteps");
  return report_of(result);
}

}  // namespace triaccel::int8::cuda
