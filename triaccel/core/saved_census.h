#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "triaccel/core/precision.h"

namespace triaccel {

/// What backward reads of a tensor that autograd saves.
enum class SavedClass : std::uint8_t {
  Constant,    // a parameter, a buffer or a copy of one: no activation
  Sizes,       // its sizes only
  Sign,        // whether an element is zero
  Window,      // the places of a pooling's maxima
  Positive,    // values of a factor that a ReLU made: many are zero
  NormInput,   // values before a norm
  Factor,      // values that the gradient is linear in
  Nonlinear,   // values that the gradient is not linear in
  Attention,   // queries, keys, values and weights of an attention
  Statistics,  // of a norm or an attention, which made them itself
  Vector,      // one vector a sample: logits, what a loss keeps
  ReluMask,    // bits of a ReLU that is fused with a norm, which made them itself
  Other,       // whole numbers; what an operator reads that we do not know
};

constexpr std::string_view name_of(SavedClass kind) {
  constexpr std::string_view kNames[] = {
      "constant",  "sizes",     "sign",       "window", "positive",  "norm-input", "factor",
      "nonlinear", "attention", "statistics", "vector", "relu-mask", "other"};
  return kNames[static_cast<std::size_t>(kind)];
}

/// Whether backward reads the values of elements, which can then be quantized.
constexpr bool keeps_values(SavedClass kind) {
  switch (kind) {
    case SavedClass::Positive:
    case SavedClass::NormInput:
    case SavedClass::Factor:
    case SavedClass::Nonlinear:
    case SavedClass::Attention:
      return true;
    case SavedClass::Constant:
    case SavedClass::Sizes:
    case SavedClass::Sign:
    case SavedClass::Window:
    case SavedClass::Statistics:
    case SavedClass::Vector:
    case SavedClass::ReluMask:
    case SavedClass::Other:
      return false;
  }
  return false;
}

/// How a tensor can be computed again from another one.
enum class Derivation : std::uint8_t {
  None,
  Affine,     // by factors and offsets a channel: what a norm does
  Rectified,  // the same and a mask, which is exact: what a norm and a ReLU do
  Smooth,     // a smooth function, with or without the same before it: SiLU, GELU
};

/// The windows of a pooling, (rows, columns).
struct PoolingWindows {
  std::array<std::int64_t, 2> size = {}, stride = {}, padding = {}, dilation = {};
  std::int64_t taps() const { return size[0] * size[1]; }
  bool operator==(const PoolingWindows&) const = default;
};

/// One time that an operator saved a tensor.
struct SavedEntry {
  std::string consumer = {};  // the node that reads it in backward; "": no way leads there
  std::string producer = {};  // the nodes that made it, nearest first: "Relu < NativeBatchNorm"
  SavedClass kind = SavedClass::Other;
  ElementType type = ElementType::F32;
  std::vector<std::int64_t> sizes = {};  // the first is divided by the batch where it divides
  bool per_sample = false;               // whether it did
  std::int64_t bytes = 0;                // of the whole tensor
  std::int64_t same_as = 0;              // number of the first entry that saved the same tensor
  std::int64_t parameter = -1;           // number of the constant that the consumer saved, too
  std::int64_t layer = -1;               // LayerId of the consumer; -1: of none
  Derivation derivation = Derivation::None;
  std::int64_t source = -1;  // number of the first entry of what it can be computed from
  std::int64_t mask = -1;    // number of the ReluMask that says which elements are zero; -1: none
  PoolingWindows windows = {};  // kind Window
  bool by_rows = false;  // NormInput of a layer norm, which goes by rows of the last dimension
  // The first entry of the input of a norm that is fused with SiLU: unfused, SiLU would also save
  // its input, of the same size.
  bool replaces_activation_input = false;
  bool operator==(const SavedEntry&) const = default;
};

/// All that a forward pass saved, in its order: who saved what, and how much of it is the same.
struct SavedCensus {
  std::int64_t samples = 0;  // of the pass
  std::vector<SavedEntry> entries = {};

  /// Bytes that are held without any codec: each tensor once, constants not at all.
  std::int64_t unique_bytes() const {
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < entries.size(); ++i)
      if (entries[i].kind != SavedClass::Constant &&
          entries[i].same_as == static_cast<std::int64_t>(i))
        sum += entries[i].bytes;
    return sum;
  }

  /// Bytes that operators asked to save, one tensor as often as it was asked for.
  std::int64_t passed_bytes() const {
    std::int64_t sum = 0;
    for (const SavedEntry& entry : entries)
      if (entry.kind != SavedClass::Constant) sum += entry.bytes;
    return sum;
  }
  bool operator==(const SavedCensus&) const = default;
};

}  // namespace triaccel
