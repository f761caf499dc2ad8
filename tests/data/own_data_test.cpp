#include "triaccel/data/own_data.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "tests/formats/sample_images.h"
#include "triaccel/base/error.h"
#include "triaccel/data/epoch_order.h"
#include "triaccel/data/load_data.h"

namespace triaccel {
namespace {

namespace fs = std::filesystem;

const c10::Device kHost(at::kCPU);

/// `count` images per class, each with a pattern of its own.
void write_class(const test::TestFolder& root, const std::string& name, int count, int first,
                 unsigned size = 20) {
  for (int i = 0; i < count; ++i) {
    test::PngSample sample{.width = size + 3, .height = size};
    for (unsigned p = 0; p < sample.width * sample.height * 3; ++p)
      sample.rows.push_back(
          static_cast<std::byte>((p * 7 + static_cast<unsigned>(first + 31 * i)) & 255));
    root.write(name + "/" + std::to_string(1000 + i) + ".png", test::png_of(sample));
  }
}

bool mentions(const std::vector<std::string>& notices, const std::string& part) {
  return std::ranges::any_of(
      notices, [&](const std::string& one) { return one.find(part) != std::string::npos; });
}

/// An .npz file with `count` images of `classes` classes.
fs::path write_arrays(const test::TestFolder& root, std::int64_t count, std::int64_t classes) {
  test::Bytes x, y;
  for (std::int64_t i = 0; i < count; ++i) {
    test::append_little(y, static_cast<std::uint64_t>(i % classes), 8);
    for (std::int64_t p = 0; p < 3 * 8 * 8; ++p)
      x.push_back(static_cast<std::byte>((p + 5 * i) & 255));
  }
  return root.write(
      "own.npz",
      test::zip_of(
          {{"x.npy", test::npy_of("|u1", false, "(" + std::to_string(count) + ", 3, 8, 8)", x),
            true},
           {"y.npy", test::npy_of("<i8", false, "(" + std::to_string(count) + ",)", y), false}}));
}

/// Every way a set is gathered, from a copy on the device and from one elsewhere.
void expect_same_bits(const DataOptions& resident_options, const DataOptions& streamed_options) {
  const LoadedData resident = load_data(resident_options, kHost);
  const LoadedData streamed = load_data(streamed_options, kHost);
  EXPECT_TRUE(mentions(streamed.notices, "while the network trains"));
  EXPECT_FALSE(mentions(resident.notices, "while the network trains"));
  EXPECT_EQ(streamed.statistics.mean, resident.statistics.mean);
  EXPECT_EQ(streamed.statistics.deviation, resident.statistics.deviation);
  EXPECT_LT(streamed.train->bytes(), 200'000);
  Sampler sampler(resident.training_ids, 3);
  EpochOrder order(kHost, streamed.train.get());
  for (const std::int64_t count : {1, 7, 16, 3, 16, 64}) {
    const std::int64_t left = sampler.samples_per_epoch() - sampler.cursor();
    const at::Tensor ids = order.upcoming(sampler, count);
    const GatherOptions how{.augment = true, .epoch = sampler.epoch(), .seed = 9};
    resident.train->enter_epoch(how);
    streamed.train->enter_epoch(how);
    const Batch a = resident.train->gather(ids, how), b = streamed.train->gather(ids, how);
    EXPECT_TRUE(at::equal(a.inputs, b.inputs)) << count;
    EXPECT_TRUE(at::equal(a.targets, b.targets)) << count;
    sampler.take(std::min(count, left));
  }
  const at::Tensor all = at::arange(resident.test->size());
  EXPECT_TRUE(at::equal(resident.test->gather(all, {}).inputs,
                        gather_unprepared(*streamed.test, all).inputs));
}

TEST(OwnArrays, InHostMemoryAndOnTheDeviceAreTheSameBits) {
  const test::TestFolder root;
  const std::string file = write_arrays(root, 90, 3).string();
  expect_same_bits({.name = file}, {.name = file, .device_bytes = 1000});
}

TEST(OwnArrays, HoldOutATenthOfEachClassWithoutATestSet) {
  const test::TestFolder root;
  const DataOptions options{.name = write_arrays(root, 90, 3).string()};
  const OwnData data = read_own_data(options);
  EXPECT_EQ(data.train.count, 81);
  EXPECT_EQ(data.test.count, 9);
  for (int label = 0; label < 3; ++label) EXPECT_EQ(std::ranges::count(data.test.labels, label), 3);
  EXPECT_TRUE(mentions(data.notices, "9 of 90 samples"));
  EXPECT_EQ(read_own_data(options).test.pixels, data.test.pixels);
  EXPECT_EQ(data.classes, (std::vector<std::string>{"0", "1", "2"}));
}

TEST(OwnArrays, MayHaveManyClasses) {
  const test::TestFolder root;
  const LoadedData data = load_data({.name = write_arrays(root, 900, 300).string()}, kHost);
  EXPECT_EQ(data.shape.classes, 300);
  const Batch batch = data.train->gather(at::arange(data.train->size()), {});
  EXPECT_EQ(batch.targets.max().item<std::int64_t>(), 299);
}

TEST(StreamedImages, AreNaNWhereTheyWereNotPrepared) {
  ImageSource source;
  source.count = 90;
  source.channels = 3;
  source.height = source.width = 8;
  source.labels.resize(90);
  source.read = [](std::int64_t number, std::span<std::uint8_t> pixels) {
    std::ranges::fill(pixels, static_cast<std::uint8_t>(number));
  };
  const PixelStatistics statistics{.mean = {0, 0, 0}, .deviation = {1, 1, 1}};
  const ImageData data(source, statistics, {}, kHost);
  data.prepare(std::vector<std::int64_t>{4, 5}, {});
  const at::Tensor inputs = data.gather(at::tensor({4, 6}, at::kLong), {}).inputs;
  EXPECT_TRUE(at::isfinite(inputs[0]).all().item<bool>());
  EXPECT_TRUE(at::isnan(inputs[1]).all().item<bool>());
}

TEST(OwnData, IsAPathThatIsNoDataSet) {
  EXPECT_FALSE(is_own_data("mnist"));
  EXPECT_TRUE(is_own_data("./mnist"));
  EXPECT_EQ(data_title("/data/pets/"), "pets");
  EXPECT_EQ(data_title("a/own.npz"), "own");
  EXPECT_EQ(data_title("cifar10"), "cifar10");
  EXPECT_THROW(read_own_data({.name = "/no/such/folder"}), UsageError);
}

TEST(OwnData, ReadsAnImageSetForIntegerTraining) {
  const test::TestFolder root;
  const ImageSplits splits = read_images({.name = write_arrays(root, 90, 3).string()});
  EXPECT_EQ(splits.train.count, 81);
  EXPECT_EQ(splits.train.classes, 3);
}

#if TRIACCEL_HAS_IMAGES

TEST(OwnFolder, StreamedAndResidentAreTheSameBits) {
  const test::TestFolder root;
  write_class(root, "cat", 40, 0);
  write_class(root, "dog", 30, 100);
  for (const double rotation : {0, 30}) {
    const DataOptions resident{
        .name = root.path().string(), .image_size = 16, .rotation = rotation};
    DataOptions decoded = resident, in_host_memory = resident;
    decoded.decoded_bytes = 1000;
    in_host_memory.device_bytes = 1000;
    expect_same_bits(resident, decoded);
    expect_same_bits(resident, in_host_memory);
  }
}

TEST(OwnFolder, NamesClassesAndChoosesTheSize) {
  const test::TestFolder root;
  write_class(root, "train/dog", 10, 0);
  write_class(root, "train/cat", 10, 100);
  write_class(root, "test/cat", 4, 50);
  const LoadedData data = load_data({.name = root.path().string()}, kHost);
  EXPECT_EQ(data.train->class_names(), (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(data.train->size(), 20);
  EXPECT_EQ(data.test->size(), 4);
  EXPECT_EQ(data.shape.image_size, 20);
  EXPECT_EQ(data.shape.input_channels, 3);
  EXPECT_TRUE(mentions(data.notices, "20x20"));
  EXPECT_TRUE(at::equal(data.test->gather(at::arange(4), {}).targets, at::zeros({4}, at::kLong)));
}

TEST(OwnFolder, DropsAFewBrokenImagesAndRefusesMany) {
  const test::TestFolder root;
  write_class(root, "cat", 150, 0, 8);
  write_class(root, "dog", 150, 100, 8);
  root.write("dog/1003.png", test::bytes_of("\x89PNG\r\n\x1a\n and then nothing"));
  DataOptions options{.name = root.path().string(), .bad_data = {BadData::Skip, 0.01}};
  for (const std::int64_t decoded : {DataOptions::kAnyNumber, std::int64_t{0}}) {
    options.decoded_bytes = decoded;
    const LoadedData data = load_data(options, kHost);
    EXPECT_EQ(data.train->size() + data.test->size(), 299);
    EXPECT_TRUE(mentions(data.notices, "dog/1003.png: broken image: PNG"));
  }
  options.bad_data = BadData::Fail;
  EXPECT_THROW(load_data(options, kHost), DataError);
  for (int i = 1010; i < 1020; ++i) root.write("dog/" + std::to_string(i) + ".png", {});
  options.bad_data = {BadData::Skip, 0.01};
  try {
    load_data(options, kHost);
    FAIL();
  } catch (const DataError& error) {
    EXPECT_NE(std::string(error.what()).find("repair or remove"), std::string::npos)
        << error.what();
    EXPECT_NE(std::string(error.what()).find(".png"), std::string::npos);
  }
}

TEST(OwnFolder, AnImageThatVanishesIsNamed) {
  const test::TestFolder root;
  write_class(root, "cat", 10, 0, 8);
  write_class(root, "dog", 10, 100, 8);
  const LoadedData data = load_data({.name = root.path().string(), .decoded_bytes = 1}, kHost);
  fs::remove_all(root.path() / "cat");
  std::vector<std::int64_t> all(static_cast<std::size_t>(data.train->size()));
  std::iota(all.begin(), all.end(), std::int64_t{0});
  try {
    data.train->prepare(all);
    FAIL();
  } catch (const DataError& error) {
    EXPECT_NE(std::string(error.what()).find("cat/10"), std::string::npos) << error.what();
  }
}

#endif

}  // namespace
}  // namespace triaccel
