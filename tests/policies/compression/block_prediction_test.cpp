#include "triaccel/policies/compression/block_prediction.h"

#include <gtest/gtest.h>

#include "tests/policies/compression/saved_network.h"
#include "triaccel/policies/memory/held_bytes.h"

namespace triaccel {
namespace {

constexpr std::int64_t kSamples = 32;
const SavedPlan kBands{
    .codec = SavedCodec::Frequency, .block = 8, .band_eighths = {56, 48, 40, 40, 32}};

std::vector<SavedStatistics> two_tensors() {
  return {saved_tensor(SavedClass::NormInput, 16, 32, 0.01),
          saved_tensor(SavedClass::NormInput, 16, 32, 0.01)};
}

/// So many of 100 blocks are predicted and save `bits` each.
BlockTest found(std::int64_t predicted, std::int64_t bits) {
  return block_test({.blocks = 100,
                     .candidates = predicted,
                     .predicted = predicted,
                     .saved_bits = predicted * bits},
                    plain_block_bits(kBands));
}

TEST(BlockPrediction, IsWrittenForTensorsWhereTestsSayThatItPays) {
  const std::vector<SavedStatistics> tensors = two_tensors();
  std::vector<SavedPlan> plans(2, kBands);
  BlockPrediction prediction;
  PolicyEvents events;
  prediction.write(tensors, kSamples, plans, events);
  EXPECT_EQ(plans, std::vector(2, kBands)) << "nothing was tested";

  const std::vector<std::size_t> due = prediction.due(tensors, plans);
  ASSERT_EQ(due, (std::vector<std::size_t>{0, 1}));
  prediction.take(due, std::vector{found(40, 60), found(5, 60)}, plans);
  prediction.write(tensors, kSamples, plans, events);
  EXPECT_GT(plans[0].predicted, 0);
  EXPECT_LT(HeldBytes(tensors[0], kSamples).under(plans[0]),
            HeldBytes(tensors[0], kSamples).under(kBands));
  EXPECT_EQ(plans[1], kBands) << "too few blocks";
  ASSERT_EQ(events.size(), 1u);
  EXPECT_TRUE(events[0].starts_with("block prediction is on for 1 saved tensors")) << events[0];

  std::vector<SavedPlan> others = {{.codec = SavedCodec::Groups, .eighths = 20}, kBands};
  prediction.write(tensors, kSamples, others, events);
  EXPECT_EQ(others[0].predicted, 0) << "no blocks any more";
}

TEST(BlockPrediction, IsGivenUpAfterThreeFailuresUntilTheTensorMoves) {
  std::vector<SavedStatistics> tensors = two_tensors();
  std::vector<SavedPlan> plans(2, kBands);
  BlockPrediction prediction;
  for (int i = 0; i < 3; ++i) {
    const auto due = prediction.due(tensors, plans);
    ASSERT_EQ(due.size(), 2u);
    prediction.take(due, std::vector{found(40, 60), found(5, 60)}, plans);
  }
  EXPECT_EQ(prediction.due(tensors, plans), std::vector<std::size_t>{0});
  for (SavedStatistics& tensor : tensors) tensor.variance *= 4;
  EXPECT_EQ(prediction.due(tensors, plans).size(), 2u);
}

TEST(BlockPrediction, ChangesNoPlanForALittle) {
  const std::vector<SavedStatistics> tensors = two_tensors();
  std::vector<SavedPlan> plans(2, kBands);
  BlockPrediction prediction;
  PolicyEvents events;
  const auto share_after = [&](std::int64_t bits) {
    const auto due = prediction.due(tensors, plans);
    prediction.take(due, std::vector{found(50, bits), found(50, bits)}, plans);
    prediction.write(tensors, kSamples, plans, events);
    return plans[0].predicted;
  };
  const int first = share_after(100);
  EXPECT_EQ(share_after(105), first);
  EXPECT_LT(share_after(40), first);
}

TEST(BlockPrediction, GoesOnFromItsState) {
  const std::vector<SavedStatistics> tensors = two_tensors();
  std::vector<SavedPlan> plans(2, kBands);
  BlockPrediction before;
  before.take(before.due(tensors, plans), std::vector{found(40, 60), found(5, 60)}, plans);
  StateMap map;
  const std::vector<StateView> state = before.state();
  for (const StateView& view : state) map[view.name] = view;
  BlockPrediction after;
  after.restore(map);
  std::vector<SavedPlan> others = plans;
  PolicyEvents events;
  before.write(tensors, kSamples, plans, events);
  after.write(tensors, kSamples, others, events);
  EXPECT_GT(plans[0].predicted, 0);
  EXPECT_EQ(others, plans);
  map.begin()->second = number_state<double>("compression/block_meters", {0, 0});
  EXPECT_THROW(after.restore(map), StorageError);
}

}  // namespace
}  // namespace triaccel
