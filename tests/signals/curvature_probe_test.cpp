#include "triaccel/signals/curvature_probe.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>

#include "tests/models/slim_models.h"
#include "tests/signals/probe_case.h"
#include "triaccel/base/error.h"
#include "triaccel/device/cpu_memory.h"

namespace triaccel {
namespace {

namespace nn = torch::nn;

/// Copies of all that a probe must leave alone.
class Witness {
 public:
  explicit Witness(const ProbeNetwork& network) : network_(network) {
    for (const at::Tensor& tensor : watched()) copies_.push_back(tensor.clone());
    for (const ParameterRef& parameter : network_.parameters)
      trained_.push_back(parameter.tensor.requires_grad());
    generator_ = at::globalContext().defaultGenerator(at::kCPU).get_state();
  }

  void expect_untouched(const std::string& where) const {
    const std::vector<at::Tensor> now = watched();
    ASSERT_EQ(now.size(), copies_.size()) << where;
    for (std::size_t i = 0; i < now.size(); ++i)
      EXPECT_TRUE(at::equal(now[i], copies_[i])) << where << ", tensor " << i;
    for (std::size_t i = 0; i < trained_.size(); ++i)
      EXPECT_EQ(network_.parameters[i].tensor.requires_grad(), trained_[i]) << where;
    EXPECT_TRUE(at::equal(generator_, at::globalContext().defaultGenerator(at::kCPU).get_state()))
        << where;
  }

 private:
  std::vector<at::Tensor> watched() const {
    std::vector<at::Tensor> all = network_.buffers;
    for (const ParameterRef& parameter : network_.parameters) {
      all.push_back(parameter.tensor.detach());
      if (parameter.tensor.grad().defined()) all.push_back(parameter.tensor.grad());
    }
    return all;
  }

  const ProbeNetwork& network_;
  std::vector<at::Tensor> copies_;
  std::vector<bool> trained_;
  at::Tensor generator_;
};

struct ZooCase {
  explicit ZooCase(const std::string& name) : options(slim(name)) {
    torch::manual_seed(11);
    if (name == "lenet5") options.image_size = 28;
    const Network model = make_model(options);
    network = probe_network(model);
    network.parameters.back().tensor.requires_grad_(false);
    for (std::size_t i = 0; i < network.parameters.size(); i += 2)
      network.parameters[i].tensor.mutable_grad() = at::ones_like(network.parameters[i].tensor);
    inputs = at::cat({sample_input(options), sample_input(options)});
    targets = name == "gpt-small" ? inputs : torch::arange(4);
  }
  ModelOptions options;
  ProbeNetwork network;
  at::Tensor inputs, targets;
};

class EveryNetwork : public testing::TestWithParam<std::string> {};

TEST_P(EveryNetwork, IsUntouchedByTheGramProbeAndNothingInItIsRandom) {
  const ZooCase zoo(GetParam());
  CurvatureProbe probe(zoo.network, {}, at::kCPU);
  const Witness witness(zoo.network);
  const CurvatureReport report = probe.run(zoo.inputs, zoo.targets, 0, 3);
  witness.expect_untouched(GetParam());
  EXPECT_EQ(report.skipped, "");
  EXPECT_EQ(report.batch, 4);
  EXPECT_EQ(report.step, 3);
  torch::manual_seed(99);
  EXPECT_EQ(probe.run(zoo.inputs, zoo.targets, 0, 3).layers, report.layers);
  // All but the head of gpt, whose weight is the last parameter, and its table of positions.
  const std::size_t missing = GetParam() == "gpt-small" ? 2 : 0;
  std::size_t measured = 0;
  for (const LayerCurvature& layer : report.layers) measured += !layer.eigenvalues.empty();
  EXPECT_EQ(measured, zoo.network.weights.size() - missing);
}

TEST_P(EveryNetwork, IsUntouchedByTheHessianProbeAndNothingInItIsRandom) {
  ZooCase zoo(GetParam());
  zoo.network.weights.resize(2);  // the longest way back
  const CurvatureOptions options{.mode = CurvatureMode::Hessian, .top = 1, .most_iterations = 2};
  const Witness witness(zoo.network);
  const CurvatureReport report =
      CurvatureProbe(zoo.network, options, at::kCPU).run(zoo.inputs, zoo.targets, 0, 0);
  witness.expect_untouched(GetParam());
  for (const LayerCurvature& layer : report.layers) EXPECT_EQ(layer.eigenvalues.size(), 1u);
  torch::manual_seed(99);
  EXPECT_EQ(
      CurvatureProbe(zoo.network, options, at::kCPU).run(zoo.inputs, zoo.targets, 0, 0).layers,
      report.layers);
}

INSTANTIATE_TEST_SUITE_P(CurvatureProbe, EveryNetwork,
                         testing::Values("lenet5", "resnet18", "efficientnet-b0", "vit-small",
                                         "gpt-small", "pointnet"),
                         [](const auto& each) {
                           return each.param.substr(0, each.param.find('-'));
                         });

struct Small : nn::Module {
  at::Tensor forward(const at::Tensor& x) {
    return head(torch::dropout(torch::tanh(norm(conv(x))), 0.5, is_training()).flatten(1));
  }
  nn::Conv2d conv = register_module("conv", nn::Conv2d(nn::Conv2dOptions(2, 3, 3).padding(1)));
  nn::BatchNorm2d norm = register_module("norm", nn::BatchNorm2d(3));
  nn::Linear head = register_module("head", nn::Linear(3 * 4 * 4, 3));
};

ProbeCase<Small> small_case() {
  torch::manual_seed(12);
  return {std::make_shared<Small>(), torch::randn({16, 2, 4, 4}),
          torch::randint(3, {16}, torch::kInt64)};
}

TEST(CurvatureProbe, ShrinksOrGivesUpWhereverMemoryRunsOut) {
  install_cpu_memory();
  const ProbeCase<Small> each = small_case();
  for (const CurvatureMode mode : {CurvatureMode::FisherGram, CurvatureMode::Hessian}) {
    const CurvatureOptions options{.mode = mode, .top = 2, .most_iterations = 1};
    each.run(options);  // libraries set themselves up
    const std::int64_t before = cpu_allocation_count();
    const CurvatureReport whole = each.run(options);
    const std::int64_t allocations = cpu_allocation_count() - before;
    EXPECT_EQ(whole.batch, 16);
    const Witness witness(each.network);
    for (const bool persistently : {false, true})
      for (std::int64_t k = 0; k < allocations; ++k) {
        fail_cpu_allocation(k, persistently);
        const CurvatureReport report = each.run(options);
        fail_cpu_allocation(-1);
        const std::string where = std::string(name_of(mode)) + ", allocation " + std::to_string(k);
        witness.expect_untouched(where);
        EXPECT_EQ(report.skipped.empty(), !persistently) << where;
        EXPECT_EQ(report.layers.size(), persistently ? 0u : 2u) << where;
        EXPECT_LE(report.batch, 8) << where;
      }
  }
}

TEST(CurvatureProbe, SaysWhyItWasSkipped) {
  install_cpu_memory();
  const ProbeCase<Small> each = small_case();
  fail_cpu_allocation(0, /*persistently=*/true);
  const CurvatureReport report = each.run({});
  fail_cpu_allocation(-1);
  EXPECT_NE(report.skipped.find("out of memory with 4 samples"), std::string::npos)
      << report.skipped;
}

// Vectors of a wide layer take more than its samples do.
TEST(CurvatureProbe, LooksForOneEigenvalueWhereMemoryIsShort) {
  install_cpu_memory();
  torch::manual_seed(5);
  const ProbeCase<nn::SequentialImpl> each(
      nn::Sequential(nn::Linear(512, 256), nn::Tanh(), nn::Linear(256, 3)).ptr(),
      torch::randn({8, 512}), torch::randint(3, {8}, torch::kInt64));
  const auto probed = [&](std::int64_t top, std::int64_t batch) {
    return each.run({.mode = CurvatureMode::Hessian, .top = top, .batch = batch});
  };
  const auto bytes = [&](std::int64_t top) {
    const std::int64_t before = read_cpu_memory().used;
    reset_cpu_memory_peak();
    probed(top, 4);
    return read_cpu_memory().peak - before;
  };
  const CurvatureReport whole = probed(5, 4);
  const std::int64_t limit = (bytes(1) + bytes(5)) / 2;
  limit_cpu_memory(read_cpu_memory().used + limit);
  const CurvatureReport short_of = probed(5, 8);
  limit_cpu_memory(0);
  EXPECT_EQ(short_of.skipped, "");
  EXPECT_EQ(short_of.batch, 4);
  ASSERT_EQ(short_of.layers.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    ASSERT_EQ(short_of.layers[i].eigenvalues.size(), 1u);
    const double largest = whole.layers[i].eigenvalues.front();
    // From below, and coarsely where the next one is close.
    EXPECT_LE(short_of.layers[i].eigenvalues.front(), 1.01 * largest) << i;
    EXPECT_GE(short_of.layers[i].eigenvalues.front(), 0.7 * largest) << i;
  }
}

TEST(CurvatureProbe, LooksAtAsManySamplesAsAskedFor) {
  const ProbeCase<Small> each = small_case();
  const CurvatureReport report = each.run({.batch = 5});
  EXPECT_EQ(report.batch, 5);
  EXPECT_EQ(report.layers, CurvatureProbe(each.network, {}, at::kCPU)
                               .run(each.inputs.narrow(0, 0, 5), each.targets.narrow(0, 0, 5),
                                    ProbeCase<Small>::kSmoothing, 0)
                               .layers);
}

TEST(CurvatureProbe, MeasuresALossThatTheCallerComputes) {
  const ProbeCase<Small> each = small_case();
  for (const CurvatureMode mode : {CurvatureMode::FisherGram, CurvatureMode::Hessian}) {
    std::vector<std::int64_t> asked;
    const auto loss = [&](std::int64_t samples) {
      asked.push_back(samples);
      return torch::cross_entropy_loss(each.network.forward(each.inputs.narrow(0, 0, samples)),
                                       each.targets.narrow(0, 0, samples));
    };
    const CurvatureOptions options{.mode = mode, .batch = 12};
    const Witness witness(each.network);
    const CurvatureReport found =
        CurvatureProbe(each.network, options, at::kCPU).run(16, loss, /*step=*/3);
    witness.expect_untouched(std::string(name_of(mode)));
    EXPECT_EQ(asked, std::vector<std::int64_t>{12});
    EXPECT_EQ(found.step, 3);
    EXPECT_EQ(found.layers, CurvatureProbe(each.network, options, at::kCPU)
                                .run(each.inputs, each.targets, /*label_smoothing=*/0, 3)
                                .layers);
  }
}

TEST(CurvatureProbe, RunsWhereGradientsAreOff) {
  const ProbeCase<Small> each = small_case();
  const CurvatureReport with_gradients = each.run({});
  const torch::NoGradGuard no_grad;
  EXPECT_EQ(each.run({}).layers, with_gradients.layers);
}

TEST(CurvatureProbe, RejectsOptionsAndBatchesThatMeanNothing) {
  const ProbeCase<Small> each = small_case();
  EXPECT_THROW(each.run({.top = 0}), UsageError);
  EXPECT_THROW(each.run({.batch = 0}), UsageError);
  CurvatureProbe probe(each.network, {}, at::kCPU);
  EXPECT_THROW(probe.run(each.inputs, each.targets.narrow(0, 0, 3), 0, 0), UsageError);
}

}  // namespace
}  // namespace triaccel
