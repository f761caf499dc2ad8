#include "triaccel/models/model_zoo.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>
#include <vector>

#include "tests/models/slim_models.h"
#include "triaccel/base/error.h"

namespace triaccel {
namespace {

std::int64_t parameter_count(const ModelOptions& options) {
  std::int64_t count = 0;
  for (const at::Tensor& parameter : make_model(options).module->parameters())
    count += parameter.numel();
  return count;
}

TEST(MakeModel, HasAsManyParametersAsTorchvision) {
  EXPECT_EQ(parameter_count({.name = "resnet18", .classes = 1000}), 11'689'512);
  EXPECT_EQ(parameter_count({.name = "resnet50", .classes = 1000}), 25'557'032);
  // With one linear layer in the place of three, which would take seconds to fill.
  const std::int64_t three = 25'089 * 4096 + 4097 * 4096 + 4097 * 1000, one = 513 * 1000;
  EXPECT_EQ(parameter_count({.name = "vgg16-bn", .stem = "cifar", .classes = 1000}),
            138'365'992 - three + one);
  EXPECT_EQ(parameter_count({.name = "densenet121", .classes = 1000}), 7'978'856);
  EXPECT_EQ(parameter_count({.name = "efficientnet-b0", .classes = 1000}), 5'288'548);
  EXPECT_EQ(parameter_count({.name = "vit-small", .classes = 1000, .image_size = 224}), 22'050'664);
}

TEST(MakeModel, HasAsManyParametersAsTheElasticZoExperiments) {
  EXPECT_EQ(parameter_count({.name = "lenet5", .input_channels = 1, .image_size = 28}), 107'786);
  EXPECT_EQ(parameter_count({.name = "pointnet", .classes = 40}), 816'744);
}

TEST(MakeModel, HasBiasesInThePlaceOfNormsInThePlainPointNet) {
  const std::int64_t maps = 64 + 64 + 64 + 128 + 1024;  // a factor and an offset each, or a bias
  EXPECT_EQ(parameter_count({.name = "pointnet-plain", .classes = 40}), 816'744 - maps);
}

TEST(MakeModel, BuildsGptInItsPublishedSize) {
  // 12 w^2 + 13 w in each of six blocks, two tables, a head without bias and the last norm.
  EXPECT_EQ(parameter_count({.name = "gpt-small", .context_length = 256, .vocabulary = 65}),
            6 * (12 * 384 * 384 + 13 * 384) + (65 + 256 + 65) * 384 + 2 * 384);
}

struct ShapeCase {
  ModelOptions options;
  std::vector<std::int64_t> input, output;
};

TEST(MakeModel, TakesAnyChannelsClassesAndResolution) {
  const std::vector<ShapeCase> cases = {
      {{.name = "lenet5", .input_channels = 1, .image_size = 28}, {2, 1, 28, 28}, {2, 10}},
      {{.name = "lenet5", .width = 12, .classes = 7}, {2, 3, 32, 32}, {2, 7}},
      {{.name = "resnet18", .width = 8, .input_channels = 1}, {2, 1, 28, 28}, {2, 10}},
      {{.name = "resnet18", .stem = "cifar", .width = 8, .classes = 3}, {2, 3, 20, 24}, {2, 3}},
      {{.name = "resnet50", .width = 8, .input_channels = 5}, {2, 5, 40, 40}, {2, 10}},
      {{.name = "vgg16-bn", .width = 8, .input_channels = 1}, {2, 1, 40, 33}, {2, 10}},
      {{.name = "vgg16-bn", .stem = "cifar", .width = 8, .classes = 3}, {2, 3, 32, 32}, {2, 3}},
      {{.name = "densenet121", .width = 8, .input_channels = 5}, {2, 5, 40, 33}, {2, 10}},
      {{.name = "densenet121", .stem = "cifar", .width = 8, .classes = 3}, {2, 3, 16, 9}, {2, 3}},
      {{.name = "efficientnet-b0", .width = 8, .input_channels = 1}, {2, 1, 37, 50}, {2, 10}},
      {{.name = "pointnet", .width = 8, .input_channels = 6, .classes = 40}, {2, 6, 33}, {2, 40}},
      {{.name = "pointnet", .width = 8, .transform_nets = true}, {2, 3, 17}, {2, 10}},
      {{.name = "pointnet-plain", .width = 8}, {2, 3, 17}, {2, 10}},
      {{.name = "gpt-small", .width = 32, .context_length = 9, .vocabulary = 5}, {2, 7}, {2, 7, 5}},
      {{.name = "vit-small", .width = 64, .input_channels = 1, .image_size = 28},
       {2, 1, 28, 28},
       {2, 10}},
      {{.name = "vit-small", .width = 64, .classes = 4, .image_size = 96}, {2, 3, 96, 96}, {2, 4}},
  };
  for (const ShapeCase& each : cases) {
    const Network network = make_model(each.options);
    network.module->eval();
    EXPECT_EQ(network.name, each.options.name);
    EXPECT_EQ(network.forward(sample_input(each.options, each.input)).sizes(), each.output)
        << each.options.name;
  }
}

TEST(MakeModel, GivesEveryParameterAGradient) {
  for (const std::string& name : model_names()) {
    const ModelOptions options = slim(name);
    const Network network = make_model(options);
    network.forward(sample_input(options)).square().mean().backward();
    for (const auto& parameter : network.module->named_parameters()) {
      ASSERT_TRUE(parameter.value().grad().defined()) << name << " " << parameter.key();
      EXPECT_TRUE(parameter.value().grad().isfinite().all().item<bool>())
          << name << " " << parameter.key();
    }
  }
}

TEST(MakeModel, GivesTheSameWeightsForTheSameSeed) {
  for (const std::string& name : model_names()) {
    const ModelOptions options = slim(name);
    torch::manual_seed(3);
    const Network first = make_model(options);
    torch::manual_seed(3);
    const Network second = make_model(options);
    torch::manual_seed(4);
    const Network other = make_model(options);
    const auto a = first.module->parameters(), b = second.module->parameters();
    bool differs = false;
    for (std::size_t i = 0; i < a.size(); ++i) {
      EXPECT_TRUE(torch::equal(a[i], b[i])) << name;
      differs = differs || !torch::equal(a[i], other.module->parameters()[i]);
    }
    EXPECT_TRUE(differs) << name;
  }
}

std::string refusal(const ModelOptions& options) {
  try {
    make_model(options);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(MakeModel, NamesTheOptionItRefuses) {
  EXPECT_EQ(refusal({.name = "resnet81"}),
            "[--model] unknown model 'resnet81'; did you mean 'resnet18'?");
  EXPECT_EQ(refusal({.stem = "cifra"}), "[--model] unknown stem 'cifra'; did you mean 'cifar'?");
  EXPECT_EQ(refusal({.classes = 0}), "[--model] classes must be between 1 and 1000000, got 0");
  EXPECT_EQ(refusal({.input_channels = -1}),
            "[--model] input_channels must be between 1 and 1000000, got -1");
  EXPECT_EQ(refusal({.name = "vit-small", .image_size = 30}),
            "[--model] vit-small needs an image size divisible by its patch size of 4, got 30");
  EXPECT_EQ(refusal({.name = "gpt-small", .width = 200}),
            "[--model] width 200 is not divisible by 3 attention heads; use a multiple of 64");
  EXPECT_EQ(refusal({.name = "vgg16-bn", .image_size = 28}),
            "[--model] vgg16-bn needs images of at least 32 pixels, got 28");
  EXPECT_EQ(refusal({.name = "densenet121", .width = 7}),
            "[--model] densenet121 needs an even width, got 7");
  EXPECT_NE(refusal({.name = "lenet5", .image_size = 3}), "");
}

}  // namespace
}  // namespace triaccel
