#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstddef>
#include <future>
#include <vector>

#include "triaccel/core/curvature_report.h"
#include "triaccel/signals/probe_pass.h"

namespace triaccel {

/// A fisher_gram measurement on a GPU, captured once, replayed like a step and read while the next
/// steps run, without synchronization. For models whose passes draw no random numbers.
class FisherReplay {
 public:
  /// Allocates all persistent buffers.
  FisherReplay(ProbeNetwork network, const CurvatureOptions& options, c10::Device device);

  /// Enqueues a measurement of options.batch samples; `captured`: only records it. Leaves buffers
  /// unchanged.
  void enqueue(const ProbeBatch& batch, bool captured);

  /// Result of the last measurement enqueued on the current stream; index = LayerId.
  std::future<std::vector<LayerCurvature>> read();

 private:
  ProbeNetwork network_;
  CurvatureOptions options_;
  c10::Device device_;
  at::Tensor products_;                // float [layers, batch, batch], of the measured ones first
  std::vector<std::size_t> measured_;  // their LayerIds
};

}  // namespace triaccel
