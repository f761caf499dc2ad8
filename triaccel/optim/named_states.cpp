#include "triaccel/optim/named_states.h"

#include <ATen/ATen.h>

#include "triaccel/base/random.h"
#include "triaccel/ops/tensors/tensor_state.h"

namespace triaccel {
namespace {

// Separates the rounding noise from other random streams of the seed.
constexpr std::uint64_t kStateNoise = 0x7374;

}  // namespace

std::uint64_t state_noise_seed(const OptimizerOptions& options) {
  return mixed_hash(options.seed, kStateNoise);
}

NamedStates::NamedStates(std::string kind, TensorBundle& bundle, kernels::Moment moment,
                         const OptimizerOptions& options)
    : kind_(std::move(kind)), seed_(state_noise_seed(options)) {
  const int which = moment == kernels::Moment::First ? 1 : 2;
  if (options.state == StateFormat::Fp8) quantized_ = moment;
  // A CPU has no other memory.
  in_host_memory_ = options.state == StateFormat::Host && !bundle.device().is_cpu();
  tensors_ =
      quantized_ ? bundle.add_quantized_state(which) : bundle.add_state(which, in_host_memory_);
}

void NamedStates::append_to(std::vector<StateView>& states,
                            const std::vector<ParameterRef>& owners) const {
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    std::string name = kind_ + "/" + owners[i].name;
    states.push_back(
        quantized_ ? quantized_state(std::move(name), tensors_[i], *quantized_, owners[i].tensor)
                   : tensor_state(std::move(name), tensors_[i]));
  }
}

void NamedStates::check(const StateMap& saved, const std::vector<ParameterRef>& owners) const {
  for (std::size_t i = 0; i < tensors_.size(); ++i)
    check_restorable(owners[i].tensor, saved, kind_ + "/" + owners[i].name);
}

void NamedStates::restore(const StateMap& saved, const std::vector<ParameterRef>& owners) {
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const std::string name = kind_ + "/" + owners[i].name;
    if (quantized_)
      restore_quantized_state(tensors_[i], *quantized_, owners[i].tensor, saved, name, seed_);
    else
      restore_tensor(tensors_[i], saved, name);
  }
}

std::int64_t NamedStates::all_bytes() const {
  std::int64_t bytes = 0;
  for (const at::Tensor& tensor : tensors_) bytes += static_cast<std::int64_t>(tensor.nbytes());
  return bytes;
}

}  // namespace triaccel
