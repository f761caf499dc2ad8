#include "triaccel/core/saved_statistics.h"

#include <gtest/gtest.h>

#include "triaccel/base/error.h"

namespace triaccel {
namespace {

SavedEntry entry_of(SavedClass kind, std::int64_t same_as) {
  return {.kind = kind, .sizes = {1, 16, 8, 8}, .per_sample = true, .same_as = same_as};
}

/// A convolution's input, its norm's, the ReLU's output, which the next convolution reads too.
SavedCensus small_census() {
  SavedCensus census{.samples = 4};
  census.entries = {entry_of(SavedClass::Factor, 0), entry_of(SavedClass::Constant, 1),
                    entry_of(SavedClass::NormInput, 2), entry_of(SavedClass::Sign, 3),
                    entry_of(SavedClass::Positive, 3)};
  census.entries[3].derivation = Derivation::Rectified;
  census.entries[3].source = 2;
  return census;
}

TEST(TensorsOf, KeepsWhatIsSavedTwiceOnceForTheReaderThatNeedsMost) {
  const std::vector<SavedStatistics> tensors = tensors_of(small_census());
  ASSERT_EQ(tensors.size(), 4u);
  EXPECT_EQ(tensors[3].kind, SavedClass::Positive);
  EXPECT_EQ(tensors[3].entry, 3);
  EXPECT_TRUE(tensors[3].mask_too);
  EXPECT_EQ(tensors[3].derivation, Derivation::Rectified);
  EXPECT_EQ(tensors[3].source, 2);
  EXPECT_FALSE(tensors[2].mask_too);
}

TEST(TensorsOf, WantsNoSecondMask) {
  SavedCensus census;
  census.entries = {entry_of(SavedClass::Sign, 0), entry_of(SavedClass::Sign, 0),
                    entry_of(SavedClass::Sizes, 0)};
  const std::vector<SavedStatistics> tensors = tensors_of(census);
  ASSERT_EQ(tensors.size(), 1u);
  EXPECT_EQ(tensors[0].kind, SavedClass::Sign);
  EXPECT_FALSE(tensors[0].mask_too);
}

TEST(TensorsOf, RefusesACensusThatRefersAhead) {
  SavedCensus census;
  census.entries = {entry_of(SavedClass::Factor, 1), entry_of(SavedClass::Factor, 1)};
  EXPECT_THROW(tensors_of(census), UsageError);
}

TEST(TensorsOf, CountTheInputOfAFusedActivation) {
  SavedCensus census = small_census();
  census.entries[2].replaces_activation_input = true;
  const std::vector<SavedStatistics> tensors = tensors_of(census);
  EXPECT_EQ(tensors[0].fp32_bytes(4), 4 * 16 * 8 * 8 * 4);
  EXPECT_EQ(tensors[2].fp32_bytes(4), 2 * tensors[0].fp32_bytes(4));
  EXPECT_EQ(tensors[2].raw_bytes(4), tensors[0].raw_bytes(4)) << "it is held once";
}

TEST(PlansByEntry, GiveEveryTimeATensorIsSavedTheSamePlan) {
  const SavedCensus census = small_census();
  const std::vector<SavedStatistics> tensors = tensors_of(census);
  std::vector<SavedPlan> plans(4);
  plans[2].codec = SavedCodec::Groups;
  plans[3].codec = SavedCodec::NonZeros;
  const std::vector<SavedPlan> by_entry = plans_by_entry(census, tensors, plans);
  ASSERT_EQ(by_entry.size(), 5u);
  EXPECT_EQ(by_entry[2], plans[2]);
  EXPECT_EQ(by_entry[3], plans[3]);
  EXPECT_EQ(by_entry[4], plans[3]);
  EXPECT_THROW(plans_by_entry(census, tensors, {}), UsageError);
}

TEST(SavedStatistics, CountsBytesAsAnFp32RunHasThem) {
  SavedStatistics tensor{.type = ElementType::BF16, .sizes = {1, 3, 5}};
  EXPECT_EQ(tensor.elements(4), 60);
  EXPECT_EQ(tensor.raw_bytes(4), 120);
  EXPECT_EQ(tensor.fp32_bytes(4), 240);
  tensor.type = ElementType::I64;
  EXPECT_EQ(tensor.fp32_bytes(4), 480);
  tensor.per_sample = false;
  EXPECT_EQ(tensor.elements(4), 15);
  EXPECT_EQ(tensor.sizes_for(4), (std::vector<std::int64_t>{1, 3, 5}));
}

}  // namespace
}  // namespace triaccel
