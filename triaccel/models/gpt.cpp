#include <torch/nn.h>

#include <cmath>
#include <string>
#include <vector>

#include "triaccel/base/error.h"
#include "triaccel/models/families.h"
#include "triaccel/models/network.h"
#include "triaccel/ops/tensors/segment.h"

// A decoder-only transformer for short contexts: GPT-2's architecture, names and initialization
// (Radford et al. 2019), six layers. The head has its own weight, so that every layer is used once
// per pass and can be planned separately.

namespace triaccel {
namespace {

namespace nn = torch::nn;

constexpr std::int64_t kGptWidth = 384;
constexpr std::int64_t kGptLayers = 6;
constexpr double kGptDropout = 0.2;
constexpr double kDeviation = 0.02;  // of the initial weights

struct CausalAttention : nn::Module {
  explicit CausalAttention(std::int64_t width)
      : heads_(heads_for(width)),
        c_attn(register_module("c_attn", nn::Linear(width, 3 * width))),
        c_proj(register_module("c_proj", nn::Linear(width, width))) {}

  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor packed = torch::linear(x, c_attn->weight, c_attn->bias);
    const double dropout = is_training() ? kGptDropout : 0.0;
    const at::Tensor mixed =
        self_attention(packed, {.heads = heads_, .causal = true, .dropout = dropout});
    return torch::linear(mixed, c_proj->weight, c_proj->bias);
  }

 private:
  std::int64_t heads_;
  nn::Linear c_attn, c_proj;
};

struct GptMlp : nn::Module {
  explicit GptMlp(std::int64_t width)
      : c_fc(register_module("c_fc", nn::Linear(width, 4 * width))),
        c_proj(register_module("c_proj", nn::Linear(4 * width, width))) {}

  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor hidden = torch::gelu(torch::linear(x, c_fc->weight, c_fc->bias));
    return torch::linear(hidden, c_proj->weight, c_proj->bias);
  }

 private:
  nn::Linear c_fc, c_proj;
};

struct Block : nn::Module {
  explicit Block(std::int64_t width)
      : ln_1(register_module("ln_1", nn::LayerNorm(nn::LayerNormOptions({width})))),
        attn(register_module("attn", std::make_shared<CausalAttention>(width))),
        ln_2(register_module("ln_2", nn::LayerNorm(nn::LayerNormOptions({width})))),
        mlp(register_module("mlp", std::make_shared<GptMlp>(width))) {}

  at::Tensor forward(const at::Tensor& input) {
    return run_segment(input, [this](at::Tensor x) {
      x = x + torch::dropout(attn->forward(ln_1(x)), kGptDropout, is_training());
      return x + torch::dropout(mlp->forward(ln_2(x)), kGptDropout, is_training());
    });
  }

 private:
  nn::LayerNorm ln_1;
  std::shared_ptr<CausalAttention> attn;
  nn::LayerNorm ln_2;
  std::shared_ptr<GptMlp> mlp;
};

struct Gpt : nn::Module {
  Gpt(std::int64_t vocabulary, std::int64_t context_length, std::int64_t width)
      : context_length_(context_length),
        wte(register_module("wte", nn::Embedding(vocabulary, width))),
        wpe(register_module("wpe", nn::Embedding(context_length, width))),
        h(register_module("h", nn::ModuleList())),
        ln_f(nullptr),
        lm_head(nullptr) {
    for (std::int64_t i = 0; i < kGptLayers; ++i) {
      blocks_.push_back(std::make_shared<Block>(width));
      h->push_back(blocks_.back());
    }
    ln_f = register_module("ln_f", nn::LayerNorm(nn::LayerNormOptions({width})));
    lm_head =
        register_module("lm_head", nn::Linear(nn::LinearOptions(width, vocabulary).bias(false)));
    initialise();
  }

  at::Tensor forward(const at::Tensor& tokens) {
    const std::int64_t length = tokens.size(1);
    require(length <= context_length_, "gpt-small", "a sequence of ", length,
            " tokens does not fit in context_length ", context_length_);
    at::Tensor x = wte(tokens);
    // In the type of the residual stream: an FP32 sum would promote everything after it.
    const at::Tensor positions = wpe->weight.slice(0, 0, length).to(x.scalar_type());
    x = torch::dropout(x + positions, kGptDropout, is_training());
    for (const std::shared_ptr<Block>& block : blocks_) x = block->forward(x);
    return torch::linear(ln_f(x), lm_head->weight);
  }

 private:
  void initialise() {
    // Smaller for layers that write to the residual stream, whose variance would otherwise grow
    // with depth.
    const double residual = kDeviation / std::sqrt(2.0 * static_cast<double>(kGptLayers));
    for (const auto& parameter : named_parameters()) {
      const std::string& name = parameter.key();
      if (name.ends_with("c_proj.weight"))
        nn::init::normal_(parameter.value(), 0.0, residual);
      else if (parameter.value().dim() == 2)
        nn::init::normal_(parameter.value(), 0.0, kDeviation);
      else if (name.ends_with("bias"))
        nn::init::zeros_(parameter.value());
    }
  }

  std::int64_t context_length_;
  nn::Embedding wte, wpe;
  nn::ModuleList h;
  std::vector<std::shared_ptr<Block>> blocks_;
  nn::LayerNorm ln_f;
  nn::Linear lm_head;
};

}  // namespace

Network make_gpt_small(const ModelOptions& options) {
  return as_network(std::make_shared<Gpt>(options.vocabulary, options.context_length,
                                          width_or(options, kGptWidth)),
                    options.name);
}

}  // namespace triaccel
