#include <torch/nn.h>

#include "triaccel/base/error.h"
#include "triaccel/models/families.h"
#include "triaccel/models/network.h"

namespace triaccel {
namespace {

namespace nn = torch::nn;

/// LeNet-5 (LeCun et al. 1998) with ReLU and max pooling. Both convolutions preserve the image
/// size, as in ElasticZO's experiments: 107,786 parameters at 28 pixels, one channel and ten
/// classes.
struct LeNet5 : nn::Module {
  LeNet5(std::int64_t channels, std::int64_t classes, std::int64_t image_size, std::int64_t width)
      : flat_((16 * width / 6) * (image_size / 4) * (image_size / 4)),
        conv1(
            register_module("conv1", nn::Conv2d(nn::Conv2dOptions(channels, width, 5).padding(2)))),
        conv2(register_module("conv2",
                              nn::Conv2d(nn::Conv2dOptions(width, 16 * width / 6, 5).padding(2)))),
        fc1(register_module("fc1", nn::Linear(flat_, 20 * width))),
        fc2(register_module("fc2", nn::Linear(20 * width, 14 * width))),
        fc3(register_module("fc3", nn::Linear(14 * width, classes))) {}

  at::Tensor forward(at::Tensor x) {
    x = torch::max_pool2d(conv1(x).relu_(), 2);
    x = torch::max_pool2d(conv2(x).relu_(), 2).flatten(1);
    require(x.size(1) == flat_, "lenet5",
            "the image size does not match the model; set --image-size");
    x = fc1(x).relu_();
    x = fc2(x).relu_();
    return fc3(x);
  }

 private:
  std::int64_t flat_;
  nn::Conv2d conv1, conv2;
  nn::Linear fc1, fc2, fc3;
};

}  // namespace

Network make_lenet5(const ModelOptions& options) {
  require(options.image_size >= 4, "--model", "lenet5 needs images of at least 4 pixels, got ",
          options.image_size);
  return as_network(std::make_shared<LeNet5>(options.input_channels, options.classes,
                                             options.image_size, width_or(options, 6)),
                    options.name);
}

}  // namespace triaccel
