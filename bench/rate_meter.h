#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "triaccel/device/side_stream.h"

namespace triaccel::bench {

/// Enqueues one call on tensors of its own and returns what it allocated.
using Call = std::function<std::vector<at::Tensor>()>;

/// Makes a call with fresh random tensors.
using MakeCall = std::function<Call()>;

/// What is measured, and the fewest bytes it must move through device memory.
struct RateCase {
  std::string family = {};
  std::string kernel = {};
  std::string shape = {};
  std::int64_t bytes = 0;
  double operations = 0;  // floating point; 0: not counted
};

struct RateMeterOptions {
  int samples = 30;
  int calls = 20;          // captured together, so that launches from the host do not count
  bool torch = false;      // also time the operators of torch that a kernel replaces
  std::string jsonl = {};  // one JSON object a case goes there; empty: nowhere
};

/// Times kernels on a GPU and prints one line each, with the share of the copy bandwidth it
/// reaches.
class RateMeter {
 public:
  RateMeter(c10::Device device, const RateMeterOptions& options);

  /// Prints a line; a call that throws is a line, too. `replaced` may be empty.
  void measure(const RateCase& what, const MakeCall& ours, const MakeCall& replaced = {});

  /// Copies and a large matrix product: what the device can do. Shares refer to the faster copy.
  void measure_device();

  const c10::Device& device() const { return device_; }
  std::int64_t cache_bytes() const { return cache_bytes_; }  // of the device's last level

 private:
  double microseconds(std::int64_t bytes, const MakeCall& make);
  double print(const RateCase& what, const MakeCall& ours, const MakeCall& replaced);

  c10::Device device_;
  RateMeterOptions options_;
  WorkStream stream_;
  std::int64_t cache_bytes_;
  double copy_bytes_per_us_ = 0;  // measured
  std::ofstream jsonl_;
};

}  // namespace triaccel::bench
