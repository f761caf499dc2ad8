#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>

#include <cstdint>
#include <vector>

namespace triaccel {

/// Memory for the records of forward passes, in pages that records which follow each other share.
///
/// Records hold their page, the arena holds none: backward, which lets go of records in the reverse
/// of their order, gives pages back one by one, where a single arena would stay whole until its
/// end; and no page of one pass serves another, captured or not.
class RecordArena {
 public:
  explicit RecordArena(c10::Device device) : device_(device) {}

  /// From here on records share no page with those before. Pages are cut for a pass like the one
  /// that ends here; where it is another, as the first one, records lie alone.
  void begin_pass();

  /// See EncodeBuffer. Where memory is short it throws as any allocation does, and has changed
  /// nothing.
  at::Tensor room(std::int64_t count, at::ScalarType type);

  // Of the pass.
  std::int64_t allocations() const { return allocations_; }
  std::int64_t allocated_bytes() const { return allocated_bytes_; }

 private:
  std::int64_t bytes_of_page_from(std::int64_t bytes) const;

  c10::Device device_;
  std::vector<std::int64_t> expected_, records_;  // bytes, aligned: of the last pass, of this one
  std::int64_t most_in_page_ = 0;                 // but a larger record has its own
  std::int64_t allocations_ = 0, allocated_bytes_ = 0;
  c10::weak_intrusive_ptr<c10::StorageImpl> page_{c10::intrusive_ptr<c10::StorageImpl>()};
  std::int64_t cursor_ = 0;  // bytes of the page that are taken
};

}  // namespace triaccel
