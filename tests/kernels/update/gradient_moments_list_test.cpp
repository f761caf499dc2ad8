#include "triaccel/kernels/update/gradient_moments_list.h"

#include <gtest/gtest.h>

#include <vector>

namespace triaccel::kernels {
namespace {

/// Each with an address of its own as its gradient, in layers that are not in order.
std::vector<TensorEntry> tensors_at(const std::vector<std::int64_t>& counts,
                                    const std::vector<char>& addresses) {
  std::vector<TensorEntry> tensors;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    TensorEntry entry;
    entry.gradient = &addresses[i];
    entry.count = counts[i];
    entry.layer = static_cast<std::int32_t>(i * 7 % 5);
    tensors.push_back(entry);
  }
  return tensors;
}

TEST(MomentsList, CoversEveryElementOnceAndKeepsLayersTogether) {
  std::vector<std::int64_t> counts = {0,
                                      1,
                                      kMomentsSegment - 1,
                                      kMomentsSegment,
                                      kMomentsSegment + 1,
                                      0,
                                      200 * kMomentsSegment + 3};
  for (std::int64_t i = 0; i < 3 * MomentsList::kCapacity; ++i) counts.push_back(i % 5);
  const std::vector<char> addresses(counts.size());
  const std::vector<TensorEntry> tensors = tensors_at(counts, addresses);
  std::vector<std::int64_t> covered(counts.size(), 0);
  int lists = 0;
  for_each_moments_list(tensors, [&](const MomentsList& list, std::int32_t segments) {
    ++lists;
    EXPECT_LE(segments, chunk_count(tensors)) << "the scratch has room for so many";
    for (std::int32_t segment = 0; segment < segments; ++segment) {
      const MomentsSegment where = locate_segment(list, segment);
      const MomentsTensor& tensor = list.tensors[where.index];
      const auto i =
          static_cast<std::size_t>(static_cast<const char*>(tensor.gradient) - addresses.data());
      EXPECT_EQ(where.begin, covered[i]);
      EXPECT_GT(where.count, 0);
      EXPECT_LE(where.count, kMomentsSegment);
      covered[i] = where.begin + where.count;
      EXPECT_EQ(tensor.layer, tensors[i].layer);
      ASSERT_LE(tensor.layer_begin, segment);
      ASSERT_GT(tensor.layer_end, segment);
      ASSERT_LE(tensor.layer_end, segments);
      for (const std::int32_t end : {tensor.layer_begin, tensor.layer_end - 1})
        EXPECT_EQ(list.tensors[locate_segment(list, end).index].layer, tensor.layer);
      for (const std::int32_t beyond : {tensor.layer_begin - 1, tensor.layer_end})
        if (beyond >= 0 && beyond < segments) {
          EXPECT_NE(list.tensors[locate_segment(list, beyond).index].layer, tensor.layer);
        }
    }
  });
  EXPECT_EQ(covered, counts);
  EXPECT_EQ(lists, 3) << "tensors without elements take no place";
}

TEST(MomentsList, CountsElementsBeyond32Bits) {
  const std::int64_t count = (std::int64_t{1} << 33) + 1;
  const std::vector<char> addresses(1);
  for_each_moments_list(tensors_at({count}, addresses),
                        [&](const MomentsList& list, std::int32_t segments) {
                          const MomentsSegment last = locate_segment(list, segments - 1);
                          EXPECT_EQ(last.begin, count - 1);
                          EXPECT_EQ(last.count, 1);
                        });
}

TEST(MomentsList, CallsNothingForNoTensors) {
  const std::vector<char> addresses(2);
  for_each_moments_list(tensors_at({0, 0}, addresses), [](const MomentsList&, std::int32_t) {
    ADD_FAILURE() << "an empty list was handed out";
  });
}

}  // namespace
}  // namespace triaccel::kernels
