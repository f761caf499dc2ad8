#include "triaccel/step/autocast_scope.h"

#include <ATen/autocast_mode.h>

namespace triaccel {

AutocastScope::AutocastScope(bool on, c10::DeviceType device, c10::ScalarType type)
    : on_(on), device_(device) {
  if (!on_) return;
  was_enabled_ = at::autocast::is_autocast_enabled(device);
  previous_type_ = at::autocast::get_autocast_dtype(device);
  at::autocast::set_autocast_enabled(device, true);
  at::autocast::set_autocast_dtype(device, type);
  at::autocast::increment_nesting();
}

AutocastScope::~AutocastScope() {
  if (!on_) return;
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(device_, was_enabled_);
  at::autocast::set_autocast_dtype(device_, previous_type_);
}

}  // namespace triaccel
