#include "triaccel/models/network.h"

#include <ATen/record_function.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/models/slim_models.h"
#include "triaccel/base/error.h"
#include "triaccel/models/model_zoo.h"

namespace triaccel {
namespace {

namespace nn = torch::nn;

TEST(LayerRegistryOfAModel, CoversEveryParameterExactlyOnce) {
  for (const std::string& name : model_names()) {
    const Network network = make_model(slim(name));
    std::multiset<std::string> registered, expected;
    std::int64_t elements = 0, expected_elements = 0;
    for (const LayerInfo& layer : network.layers.layers()) {
      registered.insert(layer.parameters.begin(), layer.parameters.end());
      elements += layer.parameter_count;
    }
    for (const auto& parameter : network.module->named_parameters()) {
      expected.insert(parameter.key());
      expected_elements += parameter.value().numel();
    }
    EXPECT_EQ(registered, expected) << name;
    EXPECT_EQ(elements, expected_elements) << name;
  }
}

/// Watches every operation of this thread and notes which parameters it reads, in order.
class FirstUses {
 public:
  explicit FirstUses(const nn::Module& module) {
    for (const auto& parameter : module.named_parameters())
      names_[parameter.value().storage().data()] = parameter.key();
    active_ = this;
    handle_ =
        at::addThreadLocalCallback(at::RecordFunctionCallback(&FirstUses::start).needsInputs(true));
  }
  ~FirstUses() {
    at::removeCallback(handle_);
    active_ = nullptr;
  }
  FirstUses(const FirstUses&) = delete;
  FirstUses& operator=(const FirstUses&) = delete;

  const std::vector<std::string>& order() const { return order_; }

 private:
  static std::unique_ptr<at::ObserverContext> start(const at::RecordFunction& operation) {
    for (const c10::IValue& input : operation.inputs()) {
      if (input.isTensor()) active_->note(input.toTensor());
      if (input.isTensorList())
        for (const at::Tensor& each : input.toTensorVector()) active_->note(each);
    }
    return nullptr;
  }
  void note(const at::Tensor& tensor) {
    if (!tensor.defined() || !tensor.has_storage()) return;
    const auto found = names_.find(tensor.storage().data());
    if (found != names_.end() && std::ranges::find(order_, found->second) == order_.end())
      order_.push_back(found->second);
  }

  static inline thread_local FirstUses* active_ = nullptr;
  std::map<const void*, std::string> names_;
  std::vector<std::string> order_;
  at::CallbackHandle handle_ = 0;
};

TEST(LayerRegistryOfAModel, FollowsTheForwardPass) {
  for (const std::string& name : model_names()) {
    const Network network = make_model(slim(name));
    const FirstUses uses(*network.module);
    network.forward(sample_input(slim(name)));
    std::vector<std::int64_t> layers;
    for (const std::string& parameter : uses.order())
      layers.push_back(network.layers.layer_of(parameter));
    EXPECT_EQ(layers.size(), network.module->parameters().size()) << name;
    EXPECT_TRUE(std::ranges::is_sorted(layers)) << name;
  }
}

TEST(LayerRegistryOfAModel, PutsTheShortcutWhereItRuns) {
  const Network network = make_model({.name = "resnet18", .width = 8});
  std::vector<std::string> names;
  for (const LayerInfo& layer : network.layers.layers()) names.push_back(layer.name);
  EXPECT_EQ(names.size(), 21u);
  EXPECT_EQ(
      std::vector(names.begin() + 5, names.begin() + 8),
      (std::vector<std::string>{"layer2.0.conv1", "layer2.0.conv2", "layer2.0.downsample.0"}));
  EXPECT_EQ(network.layers[0].parameters,
            (std::vector<std::string>{"conv1.weight", "bn1.weight", "bn1.bias"}));
  EXPECT_EQ(network.layers[0].kind, LayerKind::Convolution);
  EXPECT_EQ(network.layers[20].kind, LayerKind::Linear);
}

/// A linear map whose weight belongs to someone else too, and a matrix of its own.
struct TiedHead : nn::Module {
  explicit TiedHead(const at::Tensor& table)
      : mixing(register_parameter("mixing", torch::eye(table.size(1)))),
        weight(register_parameter("weight", table)) {}
  at::Tensor forward(const at::Tensor& x) {
    return torch::linear(torch::matmul(x, mixing), weight);
  }
  at::Tensor mixing, weight;
};

/// What a user may well register: a table of positions, a norm over two dimensions, a tied weight.
struct UserModule : nn::Module {
  UserModule() {
    positions = register_parameter("positions", torch::zeros({1, 4, 6}));
    words = register_module("words", nn::Embedding(11, 6));
    norm = register_module("norm", nn::LayerNorm(nn::LayerNormOptions({4, 6})));
    head = register_module("head", std::make_shared<TiedHead>(words->weight));
  }
  at::Tensor forward(const at::Tensor& tokens) {
    return head->forward(norm(words(tokens) + positions));
  }
  at::Tensor positions;
  nn::Embedding words = nullptr;
  nn::LayerNorm norm = nullptr;
  std::shared_ptr<TiedHead> head;
};

TEST(DiscoverLayers, FindsTheLayersOfAUsersModule) {
  const LayerRegistry layers = discover_layers(UserModule());
  ASSERT_EQ(layers.size(), 2);
  EXPECT_EQ(layers[0].name, "words");
  EXPECT_EQ(layers[0].kind, LayerKind::Embedding);
  EXPECT_EQ(layers[0].parameters,
            (std::vector<std::string>{"words.weight", "norm.weight", "norm.bias", "positions"}));
  EXPECT_EQ(layers[0].parameter_count, 66 + 24 + 24 + 24);
  EXPECT_EQ(layers[1].name, "head");
  EXPECT_EQ(layers[1].kind, LayerKind::Linear);
  EXPECT_EQ(layers[1].parameters, (std::vector<std::string>{"head.mixing"}));
}

TEST(DiscoverLayers, KnowsWhichWeightsBatchNormFollows) {
  const Network convolutions = make_model({.name = "efficientnet-b0", .width = 8});
  for (const LayerInfo& layer : convolutions.layers.layers()) {
    const bool excitation = layer.name.find(".fc") != std::string::npos;
    EXPECT_EQ(layer.normalized, !excitation && layer.name != "classifier.1") << layer.name;
  }
  const Network transformer = make_model({.name = "vit-small"});
  for (const LayerInfo& layer : transformer.layers.layers())
    EXPECT_FALSE(layer.normalized) << layer.name;
}

TEST(DiscoverLayers, OpensALayerForEachWeightOfARecurrentNet) {
  const nn::LSTM lstm(nn::LSTMOptions(3, 5));
  const LayerRegistry layers = discover_layers(*lstm);
  ASSERT_EQ(layers.size(), 2);
  EXPECT_EQ(layers[0].name, "weight_ih_l0");
  EXPECT_EQ(layers[1].parameters,
            (std::vector<std::string>{"weight_hh_l0", "bias_ih_l0", "bias_hh_l0"}));
}

TEST(DiscoverLayers, MakesOneLayerOfAModuleWithoutAnyWeight) {
  const LayerRegistry layers = discover_layers(*nn::BatchNorm1d(4));
  ASSERT_EQ(layers.size(), 1);
  EXPECT_EQ(layers[0].parameters, (std::vector<std::string>{"weight", "bias"}));
  EXPECT_EQ(layers[0].parameter_count, 8);
}

TEST(DiscoverLayers, RefusesAModuleWithoutParameters) {
  EXPECT_THROW(discover_layers(*nn::ReLU()), UsageError);
}

TEST(AsNetwork, RunsAUsersModule) {
  const auto module = std::make_shared<UserModule>();
  const Network network = as_network(module, "words");
  const at::Tensor tokens = torch::randint(11, {2, 4}, torch::kInt64);
  EXPECT_EQ(network.name, "words");
  EXPECT_EQ(network.module.get(), module.get());
  EXPECT_TRUE(torch::equal(network.forward(tokens), module->forward(tokens)));
}

}  // namespace
}  // namespace triaccel
