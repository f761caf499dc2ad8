#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "triaccel/data/dataset.h"
#include "triaccel/models/network.h"
#include "triaccel/step/forward_pass.h"

namespace triaccel {

/// Where numbers that are none came from, when a step had to be skipped.
struct Diagnosis {
  std::vector<std::string> tensors = {};   // parameters and buffers that hold some
  std::vector<std::int64_t> samples = {};  // ids whose input holds some, or whose loss is none
  std::int64_t looked_at = 0;              // samples
  std::int64_t bad_inputs = 0;             // of them

  /// Whether weights that are all numbers are to blame: no sample has a finite loss, however sound.
  bool weights_astray() const {
    return looked_at > 1 && bad_inputs == 0 && std::ssize(samples) == looked_at;
  }

  /// In words, with at most a few of each.
  std::string text() const;
};

/// Names of the parameters and buffers that hold a value which is no number.
std::vector<std::string> nonfinite_tensors(const Network& network);

/// Looks through weights, buffers and the samples of skipped steps, `batch` of them at a time or
/// fewer where memory is short. Changes nothing; waits for the device.
Diagnosis diagnose(const Network& network, const Dataset& data, std::span<const at::Tensor> ids,
                   const ForwardRules& rules, std::int64_t batch);

}  // namespace triaccel
