#pragma once

namespace torch::nn {
class Module;
}

namespace triaccel {

/// He et al. 2015 for every 2-d convolution inside: weights normal with variance 2 / fan_out,
/// biases zero; torchvision's choice for its convolutional networks.
void initialise_convolutions(torch::nn::Module& network);

/// The same for every convolution and linear map of a network without norms, with variance
/// 2 / fan_in, so that ReLU layers keep the size of what flows through them. PyTorch's own choice
/// is a sixth of that: backpropagation makes up for it in its first steps, but where steps follow
/// the loss alone, what little reaches the output drowns. False, and nothing changed, for a network
/// with norms, which has its sizes from them.
bool initialise_without_norms(torch::nn::Module& network);

}  // namespace triaccel
