#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "triaccel/core/precision.h"
#include "triaccel/core/saved_census.h"
#include "triaccel/core/saved_plan.h"

namespace triaccel {

/// The coefficients of one band; without a transform, all elements.
struct BandStatistics {
  double mean_square = 0;    // of one coefficient
  double squared_range = 0;  // mean of (highest - lowest)^2 over what is encoded with one range
  double weight = 1;         // mean square of the gradient there; only ratios between bands count
  bool operator==(const BandStatistics&) const = default;
};

/// The sides of the blocks that are tried; 0: no transform, in groups.
inline constexpr std::array<std::uint8_t, 4> kTransformBlocks = {0, 8, 7, 4};

/// Statistics of a tensor under one transform.
struct TransformStatistics {
  bool measured = false;
  std::array<BandStatistics, kFrequencyBands> bands = {};  // no transform: the first alone
  bool operator==(const TransformStatistics&) const = default;
};

/// What is known of one tensor that autograd saves, for whoever decides how it is kept. Defaults
/// stand for what was not measured.
struct SavedStatistics {
  std::int64_t entry = 0;   // of the census: the first that saved it
  std::int64_t layer = -1;  // LayerId of the reader; -1: none
  SavedClass kind = SavedClass::Other;
  bool mask_too = false;        // somebody also reads which elements are zero, and needs it exact
  bool mask_elsewhere = false;  // another tensor's mask says the same
  ElementType type = ElementType::F32;
  std::vector<std::int64_t> sizes = {};  // the first is divided by the batch where per_sample
  bool per_sample = true;
  std::int64_t window_taps = 9;  // kind Window: of its pooling
  bool by_rows = false;  // NormInput of a layer norm, which goes by rows of the last dimension
  bool replaces_activation_input = false;  // as SavedEntry

  Derivation derivation = Derivation::None;
  std::int64_t source = -1;  // index, in the same list, of what it can be computed from

  double nonzero_share = 1;
  double variance = 0;  // of elements about the mean of their channel (by_rows: of their row); 0:
                        // their mean square counts
  std::array<TransformStatistics, kTransformBlocks.size()> transforms = {};
  // Of a norm's input, which weighs each channel's (or row's) error by its variance.
  double unevenness = 1;              // mean variance of the channels times the mean of its inverse
  double levelled_squared_range = 0;  // mean over channels of range^2 / variance; 0: not measured
  double nonzero_squared_range = 0;  // as squared_range, of the ranges non-zeros have; 0: of groups

  // Error of the gradient, relative to it, per error of this tensor, relative to its variance.
  double sensitivity = 0;  // 0: what is usual for its kind

  // For bounds on the error of a weight's gradient (AC-GC); 0: not measured.
  double weight_gradient_square = 0;  // sum over the weight
  double error_gain = 0;              // what independent errors of variance 1 add to it

  std::int64_t elements(std::int64_t samples) const;
  /// Channels, or rows, that can be levelled; 0: it has none.
  std::int64_t levels(std::int64_t samples) const;
  std::int64_t raw_bytes(std::int64_t samples) const { return elements(samples) * size_of(type); }
  /// What an FP32 run saves without fused operators: both tensors where one replaces the other.
  std::int64_t fp32_bytes(std::int64_t samples) const;
  /// Sizes of the whole tensor.
  std::vector<std::int64_t> sizes_for(std::int64_t samples) const;
  bool operator==(const SavedStatistics&) const = default;
};

/// One for each tensor of a census, in its order: what many operators save is kept once, for the
/// reader that needs most of it. Nothing is measured yet.
std::vector<SavedStatistics> tensors_of(const SavedCensus& census);

/// Plans of tensors_of(census) as a plan for every entry: what autograd saves again is kept as the
/// first time. Constants stay raw.
std::vector<SavedPlan> plans_by_entry(const SavedCensus& census,
                                      const std::vector<SavedStatistics>& tensors,
                                      const std::vector<SavedPlan>& plans);

}  // namespace triaccel
