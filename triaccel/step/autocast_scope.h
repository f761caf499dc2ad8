#pragma once

#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

namespace triaccel {

/// torch's autocast for this scope, when `on`. Its cache of cast weights is emptied at the end, as
/// Python's context manager does: the weights change in between.
class [[nodiscard]] AutocastScope {
 public:
  AutocastScope(bool on, c10::DeviceType device, c10::ScalarType type);
  ~AutocastScope();
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  bool on_;
  c10::DeviceType device_;
  bool was_enabled_ = false;
  c10::ScalarType previous_type_ = c10::ScalarType::Half;
};

}  // namespace triaccel
