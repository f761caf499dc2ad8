#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "triaccel/ops/compression/codec_map.h"

namespace triaccel {

/// One tensor as it is kept between forward and backward, shared by all who saved it.
struct SavedRecord {
  std::int64_t bytes = 0;
  std::function<at::Tensor()> decode = {};  // dense; the same each time; only enqueues

  /// What a map makes of it, as the type says, in the pass that decodes it; null: it takes no maps,
  /// or none of rows.
  using DecodeMapped = std::function<at::Tensor(const CodecMap& map, at::ScalarType type)>;
  DecodeMapped decode_mapped = {};
  DecodeMapped decode_rows = {};
};

using SharedRecord = std::shared_ptr<const SavedRecord>;

/// Notices, as autograd does without hooks, when a saved tensor was changed in place before
/// backward read it. Holds none of its memory.
class SavedVersion {
 public:
  explicit SavedVersion(const at::Tensor& tensor)
      : version_(tensor.unsafeGetTensorImpl()->version_counter()), saved_(tensor._version()) {}

  /// Throws UsageError when the tensor, of these sizes, was changed since.
  void require_unchanged(at::IntArrayRef sizes) const;

 private:
  c10::VariableVersion version_;  // the tensor's own, also of what it is then
  std::int64_t saved_;
};

/// A saved tensor by reference, apart from its place in the graph.
class RawTensor {
 public:
  explicit RawTensor(const at::Tensor& tensor) : data_(tensor.tensor_data()), version_(tensor) {}

  /// As SavedVersion.
  at::Tensor value() const {
    version_.require_unchanged(data_.sizes());
    return data_;
  }

 private:
  at::Tensor data_;
  SavedVersion version_;
};

/// How a tensor lies in memory.
struct TensorLayout {
  explicit TensorLayout(const at::Tensor& tensor);

  /// Memory for it, without values.
  at::Tensor empty() const;

  /// What looks like it and has one element of memory: for whoever asks sizes, strides and type,
  /// and must not look further.
  at::Tensor stand_in() const;

  /// `dense`, which covers as many elements of memory, in this layout.
  at::Tensor of(const at::Tensor& dense) const;

  at::ScalarType type() const { return options.dtype().toScalarType(); }

  std::vector<std::int64_t> sizes, strides;
  at::TensorOptions options;
};

/// The last tensor that was decoded, as long as its record has other readers: they often follow at
/// once. May be used from any thread, and by a record that decodes another one.
class DecodedTensor {
 public:
  at::Tensor of(const SharedRecord& record);
  void forget();

  struct Counts {
    std::int64_t decodes = 0, shared = 0;
  };
  Counts counts() const;
  void reset_counts();

 private:
  mutable std::recursive_mutex mutex_;
  std::weak_ptr<const SavedRecord> record_;
  at::Tensor values_;
  Counts counts_;
};

}  // namespace triaccel
