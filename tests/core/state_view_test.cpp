#include "triaccel/core/state_view.h"

#include <gtest/gtest.h>

namespace triaccel {
namespace {

TEST(NumberState, ComesBackAsItWas) {
  StateMap saved;
  for (StateView view :
       {number_state<std::int64_t>("cursor", {7, -1}), number_state<double>("best", {0.25})})
    saved.emplace(view.name, view);
  EXPECT_EQ(numbers_from<std::int64_t>(saved, "cursor", 2), (std::vector<std::int64_t>{7, -1}));
  EXPECT_EQ(numbers_from<double>(saved, "best"), std::vector<double>{0.25});
}

TEST(NumberState, SaysWhatIsMissingOrMisshapen) {
  StateMap saved;
  saved.emplace("cursor", number_state<std::int64_t>("cursor", {7}));
  EXPECT_THROW(numbers_from<std::int64_t>(saved, "sampler"), StorageError);
  EXPECT_THROW(numbers_from<double>(saved, "cursor"), StorageError);
  EXPECT_THROW(numbers_from<std::int64_t>(saved, "cursor", 2), StorageError);
}

}  // namespace
}  // namespace triaccel
