#include "triaccel/kernels/common/tensor_list.h"

#include <gtest/gtest.h>

#include <vector>

namespace triaccel::kernels {
namespace {

std::vector<TensorEntry> tensors_of(const std::vector<std::int64_t>& counts) {
  std::vector<TensorEntry> tensors;
  for (const std::int64_t count : counts) {
    TensorEntry entry;
    entry.count = count;
    entry.layer = static_cast<std::int32_t>(tensors.size());
    tensors.push_back(entry);
  }
  return tensors;
}

TEST(TensorList, CoversEveryElementOnceAndInOrder) {
  std::vector<std::int64_t> counts = {0, 1, kChunk - 1, kChunk, kChunk + 1, 0, 5 * kChunk + 3};
  for (std::int64_t i = 0; i < 200; ++i) counts.push_back(i % 5);
  std::vector<std::int64_t> covered(counts.size(), 0);
  std::int64_t chunks_seen = 0;
  for_each_list(tensors_of(counts),
                [&](const TensorList& list, std::int32_t chunks, std::int64_t chunks_before) {
                  EXPECT_EQ(chunks_before, chunks_seen);
                  for (std::int32_t chunk = 0; chunk < chunks; ++chunk) {
                    const ChunkRange range = locate_chunk(list, chunk);
                    std::int64_t& done = covered[static_cast<std::size_t>(list.layer[range.index])];
                    EXPECT_EQ(range.begin, done);
                    EXPECT_GT(range.end, range.begin);
                    EXPECT_LE(range.end - range.begin, kChunk);
                    done = range.end;
                  }
                  chunks_seen += chunks;
                });
  EXPECT_EQ(covered, counts);
  EXPECT_EQ(chunks_seen, chunk_count(tensors_of(counts)));
}

TEST(TensorList, CountsElementsBeyond32Bits) {
  const std::int64_t count = (std::int64_t{1} << 33) + 1;
  for_each_list(tensors_of({count}),
                [&](const TensorList& list, std::int32_t chunks, std::int64_t) {
                  const ChunkRange last = locate_chunk(list, chunks - 1);
                  EXPECT_EQ(last.begin, count - 1);
                  EXPECT_EQ(last.end, count);
                });
}

TEST(TensorList, CallsNothingForNoTensors) {
  for_each_list(tensors_of({0, 0}), [](const TensorList&, std::int32_t, std::int64_t) {
    ADD_FAILURE() << "an empty list was handed out";
  });
}

}  // namespace
}  // namespace triaccel::kernels
