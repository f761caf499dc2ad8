#include "triaccel/core/layer_registry.h"

#include <gtest/gtest.h>

#include "triaccel/base/error.h"

namespace triaccel {
namespace {

TEST(LayerRegistry, FindsTheOwnerOfAParameter) {
  LayerRegistry registry;
  registry.add({"conv1", LayerKind::Convolution, {"conv1.weight", "bn1.weight", "bn1.bias"}, 20});
  registry.add({"fc", LayerKind::Linear, {"fc.weight", "fc.bias"}, 11});
  EXPECT_EQ(registry.size(), 2);
  EXPECT_EQ(registry.layer_of("bn1.bias"), 0);
  EXPECT_EQ(registry.layer_of("fc.weight"), 1);
  EXPECT_THROW(registry.layer_of("fc2.weight"), UsageError);
}

TEST(LayerRegistry, RefusesAParameterWithTwoOwners) {
  LayerRegistry registry;
  registry.add({"a", LayerKind::Linear, {"a.weight"}, 1});
  EXPECT_THROW(registry.add({"b", LayerKind::Linear, {"a.weight"}, 1}), UsageError);
  EXPECT_THROW(registry.add({"c", LayerKind::Linear, {}, 0}), UsageError);
}

}  // namespace
}  // namespace triaccel
