#include "triaccel/saved/record_arena.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdint>
#include <vector>

#include "triaccel/device/cpu_memory.h"

namespace triaccel {
namespace {

constexpr std::int64_t kLine = 128;  // bytes that records are aligned to

/// The records of a pass, by their bytes.
std::vector<at::Tensor> pass_of(RecordArena& arena, const std::vector<std::int64_t>& sizes) {
  arena.begin_pass();
  std::vector<at::Tensor> records;
  for (const std::int64_t bytes : sizes) records.push_back(arena.room(bytes, at::kByte));
  return records;
}

/// As pass_of, after one like it.
std::vector<at::Tensor> second_pass_of(RecordArena& arena, const std::vector<std::int64_t>& sizes) {
  pass_of(arena, sizes);
  return pass_of(arena, sizes);
}

TEST(RecordArena, LaysThePassThatIsLikeTheLastIntoFewPages) {
  const std::vector<std::int64_t> sizes(96, 10 * kLine);
  RecordArena arena(at::kCPU);
  pass_of(arena, sizes);
  EXPECT_EQ(arena.allocations(), 96);
  pass_of(arena, sizes);
  EXPECT_EQ(arena.allocations(), 24);
  EXPECT_EQ(arena.allocated_bytes(), 96 * 10 * kLine);
}

TEST(RecordArena, LeavesALargeRecordAlone) {
  RecordArena arena(at::kCPU);
  const auto records = second_pass_of(arena, {kLine, kLine, 100 * kLine, kLine, kLine});
  EXPECT_EQ(arena.allocations(), 3);
  EXPECT_TRUE(records[0].is_alias_of(records[1]));
  EXPECT_EQ(records[2].storage().nbytes(), 100 * kLine);
  EXPECT_TRUE(records[3].is_alias_of(records[4]));
}

TEST(RecordArena, GivesEachRecordAlignedMemoryOfItsOwn) {
  RecordArena arena(at::kCPU);
  std::vector<at::Tensor> records;
  for (int pass = 0; pass < 2; ++pass) {
    arena.begin_pass();
    records.clear();
    for (int i = 0; i < 200; ++i)
      records.push_back(arena.room(i * 7 % 150, i % 3 == 0 ? at::kInt : at::kByte).fill_(i % 250));
  }
  EXPECT_LT(arena.allocations(), 50);
  for (int i = 0; i < 200; ++i) {
    const at::Tensor& record = records[static_cast<std::size_t>(i)];
    EXPECT_EQ(record.numel(), i * 7 % 150);
    EXPECT_TRUE(record.is_contiguous());
    EXPECT_EQ(record.storage_offset() * static_cast<std::int64_t>(record.element_size()) % kLine,
              0);
    EXPECT_TRUE(record.eq(i % 250).all().item<bool>()) << i;
  }
}

TEST(RecordArena, GivesMemoryBackPageByPage) {
  install_cpu_memory();
  const std::vector<std::int64_t> sizes(96, 10 * kLine);
  const std::int64_t before = read_cpu_memory().used;
  const std::int64_t page = 40 * kLine;
  RecordArena arena(at::kCPU);
  auto records = second_pass_of(arena, sizes);
  for (std::int64_t left = 96; left > 0; --left, records.pop_back())
    EXPECT_EQ(read_cpu_memory().used - before, (left + 3) / 4 * page);
  EXPECT_EQ(read_cpu_memory().used, before);
}

TEST(RecordArena, SharesNoPageBetweenPasses) {
  RecordArena arena(at::kCPU);
  const std::vector<std::int64_t> sizes(96, kLine);
  const auto first = second_pass_of(arena, sizes);
  arena.begin_pass();
  const at::Tensor next = arena.room(kLine, at::kByte);
  for (const at::Tensor& record : first) EXPECT_FALSE(next.is_alias_of(record));
}

TEST(RecordArena, OpensANewPageWhereTheLastIsGone) {
  RecordArena arena(at::kCPU);
  second_pass_of(arena, std::vector<std::int64_t>(96, kLine));
  EXPECT_EQ(arena.allocations(), 24);
  arena.begin_pass();
  for (int i = 0; i < 96; ++i) arena.room(kLine, at::kByte).fill_(1);  // nobody keeps it
  EXPECT_EQ(arena.allocations(), 96);
}

TEST(RecordArena, TakesAPassThatIsNotLikeTheLast) {
  RecordArena arena(at::kCPU);
  const std::vector<std::int64_t> expected(96, 10 * kLine);
  for (const std::int64_t bytes : {kLine, 9 * kLine, 11 * kLine, 100 * kLine}) {
    pass_of(arena, expected);
    const std::vector<std::int64_t> sizes(100, bytes);
    const auto records = pass_of(arena, sizes);
    EXPECT_EQ(arena.allocated_bytes(), 100 * bytes);
    for (std::size_t i = 0; i < records.size(); ++i) records[i].fill_(static_cast<double>(i));
    for (std::size_t i = 0; i < records.size(); ++i)
      EXPECT_TRUE(records[i].eq(static_cast<double>(i)).all().item<bool>());
  }
}

TEST(RecordArena, GoesOnAsIfNothingHadBeenAfterMemoryRanOut) {
  install_cpu_memory();
  const std::vector<std::int64_t> sizes(96, 10 * kLine);
  RecordArena arena(at::kCPU);
  for (std::int64_t failing = 0; failing < 24; ++failing) {
    pass_of(arena, sizes);
    arena.begin_pass();
    fail_cpu_allocation(failing);
    std::vector<at::Tensor> records;
    int failures = 0;
    while (records.size() < sizes.size()) {
      try {
        records.push_back(arena.room(sizes[records.size()], at::kByte));
      } catch (const c10::OutOfMemoryError&) {
        ++failures;
      }
    }
    fail_cpu_allocation(-1);
    EXPECT_EQ(failures, 1);
    EXPECT_EQ(arena.allocations(), 24);
  }
}

}  // namespace
}  // namespace triaccel
