#include "triaccel/checkpoint/checkpoint_store.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <fstream>

#include "tests/checkpoint/sample_checkpoint.h"

namespace triaccel {
namespace {

namespace fs = std::filesystem;

class CheckpointStoreTest : public testing::Test {
 protected:
  void save(std::int64_t step, std::uint64_t seed, int keep = 3) {
    EXPECT_TRUE(CheckpointStore(directory_, keep)
                    .save(sample_info(step, seed), sample_files(seed))
                    .notices.empty());
  }

  void truncate(std::int64_t step, const std::string& file) {
    fs::resize_file(directory_ / text("step-", step) / file, 10);
  }

  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(directory_))
      names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  }

  TemporaryDirectory temporary_;
  fs::path directory_ = temporary_.path() / "run" / "checkpoints";
  CheckpointStore store_{directory_};
};

using Names = std::vector<std::string>;
using Steps = std::vector<std::int64_t>;

TEST_F(CheckpointStoreTest, HandsBackWhatItWasGiven) {
  save(12, 5);
  const LoadedCheckpoint loaded = store_.load_latest().value();
  EXPECT_EQ(loaded.info, sample_info(12, 5));
  EXPECT_TRUE(holds(loaded, sample_files(5)));
  EXPECT_TRUE(loaded.notices.empty());
}

TEST_F(CheckpointStoreTest, SaysHowMuchItWrote) {
  const SavedCheckpoint saved = store_.save(sample_info(1, 1), sample_files(1));
  std::uintmax_t bytes = 0;
  for (const auto& entry : fs::directory_iterator(directory_ / "step-1"))
    bytes += entry.file_size();
  EXPECT_EQ(static_cast<std::uintmax_t>(saved.bytes), bytes);
}

TEST_F(CheckpointStoreTest, KeepsTensorsLargerThanAChunk) {
  const std::vector<CheckpointFile> files = sample_files(3, 5'000'000);
  store_.save(sample_info(1, 3), files);
  EXPECT_TRUE(holds(store_.load(1), files));
}

TEST_F(CheckpointStoreTest, HasNothingToLoadBeforeTheFirstSave) {
  EXPECT_FALSE(store_.load_latest().has_value());
  EXPECT_EQ(store_.steps(), Steps{});
  EXPECT_THROW(store_.load(1), StorageError);
}

TEST_F(CheckpointStoreTest, TakesTheHighestStepForTheLatest) {
  for (const std::int64_t step : {9, 100, 10}) save(step, 1);
  EXPECT_EQ(store_.steps(), (Steps{9, 10, 100}));
  EXPECT_EQ(store_.load_latest()->info.step, 100);
  EXPECT_EQ(store_.load(9).info.step, 9);
}

TEST_F(CheckpointStoreTest, KeepsAsManyAsItWasTold) {
  for (std::int64_t step = 1; step <= 6; ++step) save(step, 1, 2);
  EXPECT_EQ(names(), (Names{"step-5", "step-6"}));
}

TEST_F(CheckpointStoreTest, NeverPrunesWhatItJustSaved) {
  save(300, 1);
  save(200, 2, 1);
  EXPECT_EQ(store_.steps(), (Steps{200, 300}));
}

TEST_F(CheckpointStoreTest, DoesNotCountDamagedCheckpointsAsKept) {
  save(1, 1);
  save(2, 2);
  save(9, 9);
  truncate(9, "weights.safetensors");
  save(3, 3, 2);
  EXPECT_EQ(store_.steps(), (Steps{2, 3, 9}));
}

TEST_F(CheckpointStoreTest, RemovesWhatKilledSavesLeftBehind) {
  fs::create_directories(directory_ / "step-5.tmp");
  std::ofstream(directory_ / "step-5.tmp" / "weights.safetensors") << "half";
  fs::create_directories(directory_ / "step-4.old.tmp");
  save(5, 1);
  EXPECT_EQ(names(), Names{"step-5"});
}

TEST_F(CheckpointStoreTest, KeepsAUsersFilesInADirectoryNamedLikeALeftover) {
  fs::create_directories(directory_ / "step-5.tmp");
  std::ofstream(directory_ / "step-5.tmp" / "notes.txt") << "mine";
  std::ofstream(directory_ / "step-draft.tmp") << "mine";
  for (const std::uint64_t seed : {1, 2}) save(5, seed, 1);
  EXPECT_EQ(names(), (Names{"step-5", "step-5.tmp", "step-draft.tmp"}));
  EXPECT_TRUE(fs::exists(directory_ / "step-5.tmp" / "notes.txt"));
  EXPECT_TRUE(holds(store_.load(5), sample_files(2)));
  fs::create_directories(directory_ / "step-5.1.tmp");  // of a save that was killed meanwhile
  std::ofstream(directory_ / "step-5.1.tmp" / "weights.safetensors") << "half";
  save(6, 1, 1);
  EXPECT_EQ(names(), (Names{"step-5.tmp", "step-6", "step-draft.tmp"}));
}

TEST_F(CheckpointStoreTest, LeavesForeignFilesAlone) {
  fs::create_directories(directory_ / "step-007");
  fs::create_directories(directory_ / "best");
  save(5, 1, 1);
  save(6, 1, 1);
  EXPECT_EQ(names(), (Names{"best", "step-007", "step-6"}));
}

TEST_F(CheckpointStoreTest, ReplacesACheckpointOfTheSameStep) {
  save(5, 1);
  save(5, 2);
  EXPECT_TRUE(holds(store_.load(5), sample_files(2)));
  EXPECT_EQ(names(), Names{"step-5"});
}

TEST_F(CheckpointStoreTest, ReadsTheReplacedCheckpointWhenTheSaveDiedInBetween) {
  save(5, 1);
  fs::rename(directory_ / "step-5", directory_ / "step-5.old");
  EXPECT_TRUE(holds(store_.load_latest().value(), sample_files(1)));
  EXPECT_TRUE(holds(store_.load(5), sample_files(1)));
  save(5, 2);
  EXPECT_EQ(names(), Names{"step-5"});
}

TEST_F(CheckpointStoreTest, FallsBackAndNamesTheDamage) {
  save(1, 1);
  save(2, 2);
  save(3, 3);
  truncate(3, "manifest.json");
  fs::remove(directory_ / "step-2" / "optimizer.safetensors");
  const LoadedCheckpoint loaded = store_.load_latest().value();
  EXPECT_TRUE(holds(loaded, sample_files(1)));
  ASSERT_EQ(loaded.notices.size(), 2u);
  EXPECT_NE(loaded.notices[0].find("step-3/manifest.json"), std::string::npos);
  EXPECT_NE(loaded.notices[1].find("step-2/optimizer.safetensors"), std::string::npos);
}

TEST_F(CheckpointStoreTest, SaysWhenEveryCheckpointIsDamaged) {
  save(1, 1);
  truncate(1, "weights.safetensors");
  EXPECT_THROW(store_.load_latest(), StorageError);
}

TEST_F(CheckpointStoreTest, DistrustsAManifestInAnotherStepsDirectory) {
  save(1, 1);
  fs::rename(directory_ / "step-1", directory_ / "step-2");
  EXPECT_THROW(store_.load(2), StorageError);
}

TEST_F(CheckpointStoreTest, RefusesWhatItCouldNotReadBack) {
  EXPECT_THROW(CheckpointStore(directory_, 0), UsageError);
  EXPECT_THROW(store_.save(sample_info(-1, 1), sample_files(1)), UsageError);
  EXPECT_THROW(store_.save(sample_info(1, 1), std::vector<CheckpointFile>{{.name = "../x"}}),
               UsageError);
  const std::vector<CheckpointFile> twice = {{.name = "a"}, {.name = "a"}};
  EXPECT_THROW(store_.save(sample_info(1, 1), twice), UsageError);
  const StateView tensor = number_state<float>("w", {1});
  const std::vector<CheckpointFile> doubled = {{.name = "a", .tensors = {tensor, tensor}}};
  EXPECT_THROW(store_.save(sample_info(1, 1), doubled), UsageError);
  EXPECT_FALSE(store_.load_latest().has_value());
  EXPECT_EQ(names(), Names{});
}

TEST_F(CheckpointStoreTest, ChecksForSpaceBeforeItWrites) {
  constexpr std::size_t bytes = std::size_t{1} << 42;
  void* reserved =
      ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) GTEST_SKIP() << "cannot reserve 4 TiB of addresses";
  save(1, 1);
  const std::vector<CheckpointFile> huge = {
      {.name = "weights.safetensors",
       .tensors = {{.name = "w",
                    .type = ElementType::U8,
                    .shape = {static_cast<std::int64_t>(bytes)},
                    .bytes = {static_cast<const std::byte*>(reserved), bytes}}}}};
  EXPECT_THROW(store_.save(sample_info(2, 2), huge), StorageError);
  EXPECT_EQ(names(), Names{"step-1"});
  ::munmap(reserved, bytes);
}

}  // namespace
}  // namespace triaccel
