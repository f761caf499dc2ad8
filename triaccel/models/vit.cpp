#include <torch/nn.h>

#include <cmath>
#include <string>

#include "triaccel/base/error.h"
#include "triaccel/models/families.h"
#include "triaccel/models/network.h"
#include "triaccel/ops/tensors/segment.h"

// Vision transformer (Dosovitskiy et al. 2020) with torchvision's names and initial weights, in the
// "small" size of Touvron et al. 2020: 384 wide, 12 layers, 6 heads.

namespace triaccel {
namespace {

namespace nn = torch::nn;

constexpr std::int64_t kVitWidth = 384;
constexpr std::int64_t kVitLayers = 12;
constexpr double kNormEpsilon = 1e-6;

nn::LayerNorm layer_norm(std::int64_t width) {
  return nn::LayerNorm(nn::LayerNormOptions({width}).eps(kNormEpsilon));
}

/// Truncated normal; torchvision's initialization of the patch projection.
void truncated_normal(const at::Tensor& weight, double deviation) {
  const double inside = std::erf(2.0 / deviation / std::sqrt(2.0));
  const torch::NoGradGuard no_gradient;
  weight.uniform_(-inside, inside).erfinv_().mul_(deviation * std::sqrt(2.0)).clamp_(-2.0, 2.0);
}

struct SelfAttention : nn::Module {
  explicit SelfAttention(std::int64_t width)
      : heads_(heads_for(width)),
        in_proj_weight(register_parameter("in_proj_weight", torch::empty({3 * width, width}))),
        in_proj_bias(register_parameter("in_proj_bias", torch::zeros({3 * width}))),
        out_proj(register_module("out_proj", nn::Linear(width, width))) {
    nn::init::xavier_uniform_(in_proj_weight);
    nn::init::zeros_(out_proj->bias);
  }

  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor packed = torch::linear(x, in_proj_weight, in_proj_bias);
    return torch::linear(self_attention(packed, {.heads = heads_}), out_proj->weight,
                         out_proj->bias);
  }

 private:
  std::int64_t heads_;
  at::Tensor in_proj_weight, in_proj_bias;
  nn::Linear out_proj;
};

/// The children are named by their position in torchvision's sequence, which includes GELU and
/// dropout.
struct VitMlp : nn::Module {
  explicit VitMlp(std::int64_t width)
      : expand(register_module("0", nn::Linear(width, 4 * width))),
        contract(register_module("3", nn::Linear(4 * width, width))) {
    for (const nn::Linear& linear : {expand, contract}) {
      nn::init::xavier_uniform_(linear->weight);
      nn::init::normal_(linear->bias, 0.0, 1e-6);
    }
  }

  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor hidden = torch::gelu(torch::linear(x, expand->weight, expand->bias));
    return torch::linear(hidden, contract->weight, contract->bias);
  }

 private:
  nn::Linear expand, contract;
};

struct EncoderBlock : nn::Module {
  explicit EncoderBlock(std::int64_t width)
      : ln_1(register_module("ln_1", layer_norm(width))),
        attention(register_module("self_attention", std::make_shared<SelfAttention>(width))),
        ln_2(register_module("ln_2", layer_norm(width))),
        mlp(register_module("mlp", std::make_shared<VitMlp>(width))) {}

  at::Tensor forward(const at::Tensor& input) {
    return run_segment(input, [this](at::Tensor x) {
      x = x + attention->forward(ln_1(x));
      return x + mlp->forward(ln_2(x));
    });
  }

 private:
  nn::LayerNorm ln_1;
  std::shared_ptr<SelfAttention> attention;
  nn::LayerNorm ln_2;
  std::shared_ptr<VitMlp> mlp;
};

struct Encoder : nn::Module {
  Encoder(std::int64_t tokens, std::int64_t width)
      : pos_embedding(
            register_parameter("pos_embedding", torch::normal(0.0, 0.02, {1, tokens, width}))),
        layers(register_module("layers", nn::Sequential())),
        ln(nullptr) {
    for (std::int64_t i = 0; i < kVitLayers; ++i)
      layers->push_back("encoder_layer_" + std::to_string(i),
                        std::make_shared<EncoderBlock>(width));
    ln = register_module("ln", layer_norm(width));
  }

  at::Tensor forward(const at::Tensor& x) {
    // In the type of the residual stream: an FP32 sum would promote everything after it.
    return ln(layers->forward(x + pos_embedding.to(x.scalar_type())));
  }

 private:
  at::Tensor pos_embedding;
  nn::Sequential layers;
  nn::LayerNorm ln;
};

struct VisionTransformer : nn::Module {
  VisionTransformer(const ModelOptions& options, std::int64_t patch, std::int64_t width)
      : image_size_(options.image_size),
        class_token(register_parameter("class_token", torch::zeros({1, 1, width}))),
        conv_proj(register_module(
            "conv_proj",
            nn::Conv2d(nn::Conv2dOptions(options.input_channels, width, patch).stride(patch)))),
        encoder(register_module(
            "encoder",
            std::make_shared<Encoder>((image_size_ / patch) * (image_size_ / patch) + 1, width))),
        heads(register_module("heads", nn::Sequential())) {
    const nn::Linear head(width, options.classes);
    heads->push_back("head", head);
    const auto fan_in = static_cast<double>(options.input_channels * patch * patch);
    truncated_normal(conv_proj->weight, std::sqrt(1.0 / fan_in));
    nn::init::zeros_(conv_proj->bias);
    nn::init::zeros_(head->weight);
    nn::init::zeros_(head->bias);
  }

  at::Tensor forward(at::Tensor x) {
    require(x.size(2) == image_size_ && x.size(3) == image_size_, "vit-small",
            "expected images of ", image_size_, "x", image_size_, ", got ", x.size(2), "x",
            x.size(3), "; set --image-size");
    x = conv_proj(x).flatten(2).transpose(1, 2);
    x = torch::cat({class_token.to(x.scalar_type()).expand({x.size(0), -1, -1}), x}, 1);
    return heads->forward(encoder->forward(x).select(1, 0));
  }

 private:
  std::int64_t image_size_;
  at::Tensor class_token;
  nn::Conv2d conv_proj;
  std::shared_ptr<Encoder> encoder;
  nn::Sequential heads;
};

/// Patch size in pixels: 4 at 32, 16 at 224, so that an image has about 50 to 250 patches.
std::int64_t patch_for(std::int64_t image_size) {
  if (image_size <= 64) return 4;
  return image_size <= 128 ? 8 : 16;
}

}  // namespace

Network make_vit_small(const ModelOptions& options) {
  const std::int64_t patch = patch_for(options.image_size);
  require(options.image_size % patch == 0, "--model",
          "vit-small needs an image size divisible by its patch size of ", patch, ", got ",
          options.image_size);
  return as_network(
      std::make_shared<VisionTransformer>(options, patch, width_or(options, kVitWidth)),
      options.name);
}

}  // namespace triaccel
