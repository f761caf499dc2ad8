#pragma once

namespace torch::nn {
class Module;
}

namespace triaccel {

/// Kaiming initialization (He et al. 2015) of all 2-d convolutions: normal weights with variance 2
/// / fan_out, zero biases, as in torchvision.
void initialise_convolutions(torch::nn::Module& network);

/// The same for all convolutions and linear layers of a network without norms, with variance 2 /
/// fan_in, so that ReLU layers preserve the scale of activations. PyTorch's default variance is a
/// sixth of that: backpropagation compensates in its first steps, but zeroth-order estimates drown
/// in noise. Returns false, without changes, for a network with norms.
bool initialise_without_norms(torch::nn::Module& network);

}  // namespace triaccel
