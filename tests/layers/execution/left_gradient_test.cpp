#include "triaccel/layers/execution/left_gradient.h"
#include "triaccel/ops/tensors/autograd_node.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/torch.h>

#include <memory>
#include <utility>

namespace triaccel {
namespace {

namespace autograd = torch::autograd;

/// Sends nothing through the graph and leaves `gradient` for its parameter.
class LeavingNode final : public autograd::Node {
 public:
  LeavingNode(at::Tensor parameter, at::Tensor gradient)
      : parameter_(std::move(parameter)), gradient_(std::move(gradient)) {
    set_next_edges(autograd::collect_next_edges(parameter_));
  }
  autograd::variable_list apply(autograd::variable_list&&) override {
    leave_for_parameter(next_edge(0), parameter_, {gradient_});
    return {{}};
  }

 private:
  at::Tensor parameter_, gradient_;
};

class LeftGradients : public testing::Test {
 protected:
  /// A number that such a node has made.
  at::Tensor leaving(double gradient) const {
    at::Tensor made = at::zeros({});
    autograd::set_history(made,
                          make_node<LeavingNode>(parameter_, at::full_like(parameter_, gradient)));
    return made;
  }

  double gradient() const { return parameter_.grad().sum().item<double>() / 3; }

  const at::Tensor parameter_ = at::ones({3}).requires_grad_();
};

TEST_F(LeftGradients, ReachTheirParameter) {
  leaving(5).backward();
  EXPECT_EQ(gradient(), 5);
}

TEST_F(LeftGradients, AreAddedToWhatComesThroughTheGraph) {
  (leaving(5) + parameter_.sum() * 2).backward();
  EXPECT_EQ(gradient(), 7);
  (parameter_.sum() * 2 + leaving(5)).backward();
  EXPECT_EQ(gradient(), 14);
}

TEST_F(LeftGradients, AreAddedToEachOtherAndToWhatIsThere) {
  (leaving(5) + leaving(6)).backward();
  EXPECT_EQ(gradient(), 11);
  leaving(1).backward();
  EXPECT_EQ(gradient(), 12);
}

/// Until every use has been differentiated no update may see a part.
TEST_F(LeftGradients, AreNotThereBeforeAllUsesAreDifferentiated) {
  const at::Tensor other = parameter_ * 2;  // has the lower number, so it is differentiated later
  bool seen = false;
  other.register_hook([&](const at::Tensor&) { seen = parameter_.grad().defined(); });
  (leaving(5) + other.sum()).backward();
  EXPECT_FALSE(seen);
  EXPECT_EQ(gradient(), 7);
}

TEST_F(LeftGradients, ComeOnce) {
  const auto kept_alive = autograd::impl::grad_accumulator(parameter_);
  leaving(5).backward();
  parameter_.sum().backward();
  EXPECT_EQ(gradient(), 6);
}

}  // namespace
}  // namespace triaccel
