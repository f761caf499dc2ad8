#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>
#include <vector>

#include "tests/models/slim_models.h"
#include "triaccel/base/error.h"
#include "triaccel/models/families.h"
#include "triaccel/models/model_zoo.h"

namespace triaccel {
namespace {

TEST(SelfAttention, WeighsValuesByTheSoftmaxOfScores) {
  const at::Tensor packed = torch::randn({2, 5, 24});
  const at::Tensor result = self_attention(packed, {.heads = 2});
  const auto parts = packed.chunk(3, 2);
  for (std::int64_t head = 0; head < 2; ++head) {
    const at::Tensor q = parts[0].slice(2, 4 * head, 4 * head + 4);
    const at::Tensor k = parts[1].slice(2, 4 * head, 4 * head + 4);
    const at::Tensor v = parts[2].slice(2, 4 * head, 4 * head + 4);
    const at::Tensor expected =
        torch::softmax(torch::matmul(q, k.transpose(1, 2)) / 2.0, 2).matmul(v);
    EXPECT_TRUE(torch::allclose(result.slice(2, 4 * head, 4 * head + 4), expected, 1e-5, 1e-6));
  }
}

TEST(Gpt, SeesOnlyThePast) {
  const Network gpt = make_model({.name = "gpt-small", .width = 64, .context_length = 8});
  gpt.module->eval();
  at::Tensor tokens = torch::arange(8).unsqueeze(0);
  const at::Tensor before = gpt.forward(tokens);
  tokens[0][5] = 77;
  const at::Tensor after = gpt.forward(tokens);
  EXPECT_TRUE(torch::allclose(before.slice(1, 0, 5), after.slice(1, 0, 5), 1e-5, 1e-6));
  EXPECT_FALSE(torch::allclose(before.slice(1, 5), after.slice(1, 5), 1e-3, 1e-4));
}

TEST(Gpt, RefusesASequenceLongerThanItsContext) {
  const Network gpt = make_model({.name = "gpt-small", .width = 32, .context_length = 8});
  EXPECT_THROW(gpt.forward(torch::zeros({1, 9}, torch::kInt64)), UsageError);
}

TEST(PointNet, DoesNotDependOnTheOrderOfThePoints) {
  const Network pointnet = make_model({.name = "pointnet", .width = 16, .transform_nets = true});
  pointnet.module->eval();
  const at::Tensor cloud = torch::randn({2, 3, 50});
  const at::Tensor shuffled = cloud.index_select(2, torch::randperm(50));
  EXPECT_TRUE(torch::allclose(pointnet.forward(cloud), pointnet.forward(shuffled), 1e-5, 1e-6));
}

TEST(PointNet, StartsWithTransformsThatChangeNothing) {
  const Network pointnet = make_model({.name = "pointnet", .width = 16, .transform_nets = true});
  const auto parameters = pointnet.module->named_parameters();
  EXPECT_EQ(parameters["align_points.fc3.weight"].abs().max().item<float>(), 0.0f);
  EXPECT_TRUE(torch::equal(parameters["align_points.fc3.bias"].view({3, 3}), torch::eye(3)));
}

TEST(EfficientNet, DropsWholeBranchesInTrainingOnly) {
  const Network network = make_model({.name = "efficientnet-b0", .width = 8});
  const at::Tensor image = torch::randn({1, 3, 32, 32}).expand({8, -1, -1, -1});
  network.module->eval();
  const at::Tensor calm = network.forward(image);
  EXPECT_TRUE(torch::allclose(calm[0], calm[7], 1e-4, 1e-5));
  network.module->train();
  const at::Tensor dropped = network.forward(image);
  EXPECT_FALSE(torch::allclose(dropped[0], dropped[7], 1e-4, 1e-5));
}

TEST(VisionTransformer, RefusesImagesOfAnotherSize) {
  const Network vit = make_model({.name = "vit-small", .width = 64});
  EXPECT_THROW(vit.forward(torch::zeros({1, 3, 28, 28})), UsageError);
}

struct Lesson {
  ModelOptions options;
  double learning_rate;
};

// A network that cannot learn eight samples by heart has a broken path somewhere.
TEST(SmallModels, LearnAFewSamplesByHeart) {
  const std::vector<Lesson> lessons = {
      {{.name = "lenet5", .input_channels = 1, .image_size = 28}, 2e-3},
      {{.name = "resnet18", .stem = "cifar", .width = 8, .image_size = 16}, 3e-3},
      {{.name = "pointnet", .width = 16}, 3e-3},
      {{.name = "gpt-small", .width = 64, .context_length = 16, .vocabulary = 20}, 3e-3},
      {{.name = "vit-small", .width = 64, .image_size = 8}, 1e-3},
  };
  torch::set_num_threads(1);  // threads only wait for each other on tensors this small
  for (const Lesson& lesson : lessons) {
    torch::manual_seed(11);
    const Network network = make_model(lesson.options);
    std::vector<at::Tensor> pairs;
    for (int i = 0; i < 4; ++i) pairs.push_back(sample_input(lesson.options));
    const at::Tensor input = torch::cat(pairs);
    const at::Tensor logits = network.forward(input);
    const std::int64_t classes = logits.size(-1);
    const at::Tensor labels = torch::randint(classes, {logits.numel() / classes}, torch::kInt64);
    torch::optim::Adam adam(network.module->parameters(), lesson.learning_rate);
    double first = 0.0, last = 0.0;
    for (int step = 0; step < 30; ++step) {
      adam.zero_grad();
      const at::Tensor loss =
          torch::cross_entropy_loss(network.forward(input).view({-1, classes}), labels);
      loss.backward();
      adam.step();
      last = loss.item<double>();
      if (step == 0) first = last;
    }
    EXPECT_LT(last, 0.5 * first) << lesson.options.name;
  }
}

}  // namespace
}  // namespace triaccel
