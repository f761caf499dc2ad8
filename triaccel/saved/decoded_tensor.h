#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <mutex>

#include "triaccel/saved/saved_record.h"

namespace triaccel {

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
