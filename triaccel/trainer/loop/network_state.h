#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "triaccel/core/state_view.h"
#include "triaccel/models/network.h"
#include "triaccel/ops/tensors/tensor_bundle.h"

namespace triaccel {

/// Parameters and buffers under the names a PyTorch state_dict gives them.
std::vector<StateView> network_state(const Network& network);

/// Takes back what network_state gave; StorageError, naming the tensor, before anything changes.
void restore_network(Network& network, const StateMap& saved);

/// Starts from the weights in a safetensors file, such as a checkpoint's or an exported
/// state_dict. Throws DataError naming the first tensor that is missing, has another shape or holds
/// a value that is not finite. With `new_head`, a last layer for another number of classes keeps
/// its fresh weights; returns what to tell the user about it, or "".
std::string load_weights(Network& network, const std::filesystem::path& file,
                         bool new_head = false);

/// The parameters in registration order, each once and with its layer.
std::vector<ParameterRef> parameters_of(const Network& network);

/// The weight of each layer; index = LayerId.
std::vector<at::Tensor> layer_weights(const Network& network);

/// Every buffer (running statistics and the like).
std::vector<at::Tensor> buffers_of(const Network& network);

std::int64_t parameter_count(const Network& network);

}  // namespace triaccel
