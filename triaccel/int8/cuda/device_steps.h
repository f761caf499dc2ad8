#pragma once

#include <cstdint>

#include "triaccel/int8/cuda/launches.h"
#include "triaccel/int8/cuda/step_arguments.h"
#include "triaccel/int8/training/train_step.h"

namespace triaccel::int8::cuda {

/// Whether this build can run steps on a CUDA device.
bool device_steps_built();

/// Training steps on a CUDA device: bit for bit those of train_step, with exponents per sample. The
/// last layers may be backpropagated as far as they are linear. Convolutions and linear layers run
/// a sample a block out of shared memory, point layers in tiles.
class DeviceSteps {
 public:
  /// Throws UsageError for options a device cannot do, and where a sample does not fit a block's
  /// shared memory on the current device.
  DeviceSteps(const Network& network, std::int32_t batch_size, const StepOptions& options,
              std::int32_t input_exponent = kPixelExponent);

  /// Device memory a step needs: weights, batch, scratch.
  std::int64_t bytes() const { return bytes_; }

  /// Gives it its memory, `bytes()` from a multiple of 256 on the current device, which it does not
  /// own. Must come first.
  void place(void* device_memory);

  /// Copies the state to the device, and back: the latter waits for the stream.
  void upload(const State& state, cudaStream_t stream);
  void download(State& state, cudaStream_t stream) const;

  /// Step sizes for the steps from here on in the stream, also for those of a captured graph.
  void set_rates(std::int32_t rate_exponent, std::int32_t gradient_bits, cudaStream_t stream);

  /// Where the caller puts a batch: mantissas [sample][Network::inputs()], and labels, which must
  /// be below the number of classes.
  std::int8_t* inputs() const { return step_.inputs; }
  std::int32_t* labels() const { return step_.labels; }

  /// One step, of the whole batch or of its first samples. Only enqueues, so it may be captured in
  /// a graph and replayed: which step it is and the rates are read from device memory.
  void enqueue(cudaStream_t stream) const { enqueue(step_.batch, stream); }
  void enqueue(std::int32_t samples, cudaStream_t stream) const;

  /// What the last step found, in device memory, and a copy of it: waits for the stream.
  DeviceStepResult* result() const { return step_.result; }
  StepReport report(cudaStream_t stream) const;

  /// Such a copy in the words of train_step.
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
