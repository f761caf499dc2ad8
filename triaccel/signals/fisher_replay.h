#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstddef>
#include <future>
#include <vector>

#include "triaccel/core/curvature_report.h"
#include "triaccel/signals/curvature_options.h"
#include "triaccel/signals/probe_pass.h"

namespace triaccel {

/// A fisher_gram measurement on a GPU that is captured once, replayed like a step, and read while
/// the next steps run: nothing waits for it. For networks whose passes draw no random numbers.
class FisherReplay {
 public:
  /// Everything that outlives a measurement is allocated here.
  FisherReplay(ProbeNetwork network, const CurvatureOptions& options, c10::Device device);

  /// Enqueues a measurement of options.batch samples; `captured`: only records it. Buffers are the
  /// same after it as before.
  void enqueue(const ProbeBatch& batch, bool captured);

  /// What the measurement before this call on the current stream found; index = LayerId.
  std::future<std::vector<LayerCurvature>> read();

 private:
  ProbeNetwork network_;
  CurvatureOptions options_;
  c10::Device device_;
  at::Tensor products_;                // float [layers, batch, batch], of the measured ones first
  std::vector<std::size_t> measured_;  // their LayerIds
};

}  // namespace triaccel
