#include <gtest/gtest.h>
#include <torch/torch.h>

#include <set>
#include <string>
#include <vector>

#include "triaccel/models/model_zoo.h"

// Names are a promise: they are what checkpoints and torchvision's weight files hold.

namespace triaccel {
namespace {

std::set<std::string> state_names(const ModelOptions& options) {
  const Network network = make_model(options);
  std::set<std::string> names;
  for (const auto& parameter : network.module->named_parameters()) names.insert(parameter.key());
  for (const auto& buffer : network.module->named_buffers()) names.insert(buffer.key());
  return names;
}

void expect_names(const ModelOptions& options, std::size_t count,
                  const std::vector<std::string>& some) {
  const std::set<std::string> names = state_names(options);
  EXPECT_EQ(names.size(), count) << options.name;
  for (const std::string& name : some) EXPECT_TRUE(names.contains(name)) << name;
}

TEST(StateNames, OfResNetAreTorchvisions) {
  expect_names({.name = "resnet18", .width = 8}, 122,
               {"conv1.weight", "bn1.running_mean", "bn1.num_batches_tracked",
                "layer1.0.conv1.weight", "layer1.1.bn2.bias", "layer2.0.downsample.0.weight",
                "layer2.0.downsample.1.running_var", "fc.weight", "fc.bias"});
  expect_names({.name = "resnet50", .width = 8}, 320,
               {"layer1.0.downsample.0.weight", "layer3.5.conv3.weight", "layer4.2.bn3.weight"});
}

TEST(StateNames, OfVggAreTorchvisions) {
  expect_names({.name = "vgg16-bn", .width = 8}, 97,
               {"features.0.weight", "features.0.bias", "features.1.running_mean",
                "features.40.weight", "features.41.num_batches_tracked", "classifier.0.weight",
                "classifier.3.bias", "classifier.6.weight"});
  expect_names({.name = "vgg16-bn", .stem = "cifar", .width = 8}, 93, {"classifier.0.bias"});
}

TEST(StateNames, OfDenseNetAreTorchvisions) {
  expect_names({.name = "densenet121", .width = 8}, 727,
               {"features.conv0.weight", "features.norm0.running_var",
                "features.denseblock1.denselayer1.norm1.weight",
                "features.denseblock4.denselayer16.conv2.weight", "features.transition3.norm.bias",
                "features.transition3.conv.weight", "features.norm5.bias", "classifier.weight"});
}

TEST(StateNames, OfEfficientNetAreTorchvisions) {
  expect_names({.name = "efficientnet-b0", .width = 8}, 360,
               {"features.0.0.weight", "features.0.1.running_mean", "features.1.0.block.0.0.weight",
                "features.1.0.block.1.fc1.bias", "features.1.0.block.2.1.weight",
                "features.6.3.block.2.fc2.weight", "features.8.0.weight", "classifier.1.weight",
                "classifier.1.bias"});
}

TEST(StateNames, OfVisionTransformerAreTorchvisions) {
  expect_names(
      {.name = "vit-small", .width = 64}, 152,
      {"class_token", "conv_proj.weight", "conv_proj.bias", "encoder.pos_embedding",
       "encoder.layers.encoder_layer_0.ln_1.weight",
       "encoder.layers.encoder_layer_0.self_attention.in_proj_weight",
       "encoder.layers.encoder_layer_0.self_attention.in_proj_bias",
       "encoder.layers.encoder_layer_11.self_attention.out_proj.weight",
       "encoder.layers.encoder_layer_11.mlp.0.weight", "encoder.layers.encoder_layer_11.mlp.3.bias",
       "encoder.ln.bias", "heads.head.weight"});
}

TEST(StateNames, OfGptAreGpt2s) {
  expect_names({.name = "gpt-small", .width = 32}, 77,
               {"wte.weight", "wpe.weight", "h.0.ln_1.weight", "h.0.attn.c_attn.weight",
                "h.5.attn.c_proj.bias", "h.5.mlp.c_fc.weight", "h.5.mlp.c_proj.weight",
                "ln_f.weight", "lm_head.weight"});
}

TEST(StateNames, OfSmallNetsAreTheirLayers) {
  expect_names({.name = "lenet5"}, 10, {"conv1.weight", "conv2.bias", "fc1.weight", "fc3.bias"});
  expect_names({.name = "pointnet", .width = 8}, 36,
               {"map1.conv.weight", "map5.bn.running_var", "fc1.weight", "fc3.bias"});
}

}  // namespace
}  // namespace triaccel
