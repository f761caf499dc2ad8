#pragma once

#include <cstdint>

#include "triaccel/int8/cuda/launches.h"
#include "triaccel/int8/cuda/step_arguments.h"
#include "triaccel/int8/training/train_step.h"

namespace triaccel::int8::cuda {

/// Whether this build can run steps on a CUDA device.
bool device_steps_built();

/// Training steps on a CUDA device, bit-identical to train_step with exponents per sample. Only
/// linear layers support backpropagation. Convolutions and linear layers run one sample per block
/// in shared memory, point layers in tiles.
class DeviceSteps {
 public:
  /// Throws UsageError for unsupported options, or if a sample does not fit the shared memory of a
  /// block on the current device.
  DeviceSteps(const Network& network, std::int32_t batch_size, const StepOptions& options,
              std::int32_t input_exponent = kPixelExponent);

  /// Device memory a step needs: weights, batch, scratch.
  std::int64_t bytes() const { return bytes_; }

  /// Sets the working memory: `bytes()` bytes on the current device, aligned to 256, not owned.
  /// Call first.
  void place(void* device_memory);

  /// Copies the state to the device, or back; the latter synchronizes the stream.
  void upload(const State& state, cudaStream_t stream);
  void download(State& state, cudaStream_t stream) const;

  /// Sets the step sizes of later steps in the stream, including those of a captured graph.
  void set_rates(std::int32_t rate_exponent, std::int32_t gradient_bits, cudaStream_t stream);

  /// Input buffers for a batch: mantissas [sample][Network::inputs()], and labels, which must be
  /// below the number of classes.
  std::int8_t* inputs() const { return step_.inputs; }
  std::int32_t* labels() const { return step_.labels; }

  /// Runs one step on the whole batch or its first samples. Only enqueues work, so it can be
  /// captured and replayed: step number and step sizes are read from device memory.
  void enqueue(cudaStream_t stream) const { enqueue(step_.batch, stream); }
  void enqueue(std::int32_t samples, cudaStream_t stream) const;

  /// Result of the last step in device memory, and a copy of it (synchronizes the stream).
  DeviceStepResult* result() const { return step_.result; }
  StepReport report(cudaStream_t stream) const;

  /// Converts such a copy to the result type of train_step.
  StepReport report_of(const DeviceStepResult& result) const {
    return {.loss = {result.loss[0], result.loss[step_.network.streams > 1 ? 1 : 0]},
            .slope = result.slope,
            .correct = result.correct[0]};
  }

 private:
  void lay_out(std::int8_t* memory);

  StepArguments step_ = {};
  SampleLayout sample_ = {};
  std::int64_t bytes_ = 0;
  std::int32_t rate_exponent_ = 0;
  std::int32_t gradient_bits_ = 0;
};

}  // namespace triaccel::int8::cuda
