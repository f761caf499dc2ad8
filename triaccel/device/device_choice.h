#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "triaccel/core/precision.h"

namespace triaccel {

/// "auto" (a usable GPU, else the CPU), "cpu" or "cuda" -> device; UsageError says what is missing.
c10::Device choose_device(std::string_view name);

/// "Intel(R) Xeon(R) Processor, 2 threads" or the GPU's name, capability and memory.
std::string device_text(c10::Device device);

/// Bytes that a share such as "80%" is taken of: the GPU's memory or the machine's.
std::int64_t device_total_bytes(c10::Device device);

/// Bytes nobody uses at the moment, on the GPU or in the machine (its container, if it has one).
std::int64_t device_free_bytes(c10::Device device);

/// Waits until the device has done all that was enqueued; the CPU always has.
void synchronize(c10::Device device);

/// Number of CPU threads for libtorch and our kernels; 0 keeps the default.
void set_threads(int threads);

/// FP32 that is FP32: TF32 is off. `deterministic` asks for the same bits run after run.
void set_arithmetic(bool deterministic);

/// Empty when the hardware itself computes in the format, else what it lacks.
std::string missing_hardware(Precision precision, c10::Device device);

}  // namespace triaccel
