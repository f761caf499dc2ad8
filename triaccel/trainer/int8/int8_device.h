#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "triaccel/int8/cuda/device_steps.h"
#include "triaccel/trainer/int8/int8_data.h"

namespace triaccel {

/// Integer steps and evaluations on the current CUDA device, over samples that lie there: bit for
/// bit what int8::train_step and int8::evaluate do on the CPU.
class Int8Device {
 public:
  /// For batches of up to `batch` samples. Throws UsageError for what a device cannot do.
  Int8Device(const Int8Data& data, const int8::Network& network, const int8::StepOptions& options,
             std::int64_t batch);
  Int8Device(const Int8Device&) = delete;
  Int8Device& operator=(const Int8Device&) = delete;

  /// One step on the training samples `ids` (int64 on the device), at the rates of `now`. The first
  /// one starts from `state`; later ones go on from where the device is, and `state` falls behind
  /// until fetch(). Waits for nothing.
  void step(const int8::State& state, const at::Tensor& ids, const int8::StepOptions& now);

  /// What the steps since the last call found, in order. Waits for the device.
  std::vector<int8::StepReport> take_reports();

  /// Brings `state` up to the last step. Waits for the device.
  void fetch(int8::State& state);

  /// The next step starts from the state it is given.
  void forget();

  /// Fetches `state` and evaluates it on test samples, or on those of the training set.
  int8::Evaluation evaluate(int8::State& state, bool test, std::span<const std::int64_t> ids);

  c10::Device device() const { return device_; }
  std::int64_t bytes() const { return memory_.numel(); }  // of steps: weights, batch, scratch

 private:
  struct Samples {
    at::Tensor mantissas;  // I8 [count, inputs]
    at::Tensor labels;     // I32 [count]
  };
  Samples on_device(const Int8Samples& samples) const;
  cudaStream_t stream() const;
  void hold(int8::cuda::DeviceSteps& steps, const int8::State& state);
  void enqueue(const int8::cuda::DeviceSteps& steps, const Samples& samples, const at::Tensor& ids);
  std::vector<int8::StepReport> read_log(const int8::cuda::DeviceSteps& steps);
  void keep_reports();

  c10::Device device_;
  std::int64_t batch_;
  int8::cuda::DeviceSteps training_;
  int8::cuda::DeviceSteps evaluation_;         // steps that change nothing, in the same memory
  int8::cuda::DeviceSteps* holder_ = nullptr;  // whose weights the memory holds
  bool ahead_ = false;                         // of the state last fetched
  std::array<std::int32_t, 2> rates_;          // exponent and bits of the last step
  Samples train_, test_;
  at::Tensor memory_;  // U8
  at::Tensor log_;     // I64 [kLogged, 5]: results of the steps not read yet
  std::int64_t logged_ = 0;
  std::vector<int8::StepReport> reports_;
};

}  // namespace triaccel
