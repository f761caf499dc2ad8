#pragma once

namespace torch::nn {
class Module;
}

namespace triaccel {

/// He et al. 2015 for every 2-d convolution inside: weights normal with variance 2 / fan_out,
/// biases zero; torchvision's choice for its convolutional networks.
void initialise_convolutions(torch::nn::Module& network);

}  // namespace triaccel
