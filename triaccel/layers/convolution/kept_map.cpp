#include "triaccel/layers/convolution/kept_map.h"

namespace triaccel {
namespace {

/// The node that made `map` and can make it again; null where there is none, and where the map was
/// written to since.
std::shared_ptr<RecomputesOutput> maker_of(const at::Tensor& map) {
  if (!map.defined() || !map.grad_fn() || map._version() != 0) return nullptr;
  auto maker = node_as<RecomputesOutput>(map.grad_fn());
  return maker && maker->can_recompute() ? maker : nullptr;
}

}  // namespace

KeptMap::KeptMap(const at::Tensor& map, bool recompute)
    : maker_(recompute ? maker_of(map) : nullptr) {
  if (!maker_) kept_ = torch::autograd::SavedVariable(map, /*is_output=*/false);
}

at::Tensor KeptMap::get(const NodePtr& reader) const {
  return maker_ ? maker_->output_again() : kept_.unpack(reader);
}

void KeptMap::release() {
  maker_.reset();
  kept_.reset_data();
}

}  // namespace triaccel
