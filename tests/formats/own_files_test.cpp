// Labelled arrays and image folders: what users' own files look like, and what may be wrong with
// them.
#include <algorithm>
#include <cmath>

#include "tests/formats/sample_images.h"
#include "triaccel/formats/image_folder.h"
#include "triaccel/formats/labelled_arrays.h"
#include "triaccel/formats/safetensors.h"

namespace triaccel {
namespace {

namespace fs = std::filesystem;

template <typename T>
StateView array_of(std::string name, ElementType type, std::vector<std::int64_t> shape,
                   std::vector<T> values) {
  auto kept = std::make_shared<std::vector<T>>(std::move(values));
  StateView view{std::move(name), type, std::move(shape), std::as_bytes(std::span(*kept)), {}};
  view.owner = std::move(kept);
  return view;
}

StateView images(std::vector<std::int64_t> shape, std::string name = "x") {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  std::vector<std::uint8_t> values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(static_cast<std::uint8_t>(i));
  return array_of(std::move(name), ElementType::U8, std::move(shape), std::move(values));
}

StateView labels(std::vector<std::int64_t> values, std::string name = "y") {
  const std::int64_t count = std::ssize(values);
  return array_of(std::move(name), ElementType::I64, {count}, std::move(values));
}

LabelledArrays read(const std::vector<StateView>& arrays, BadData mode = BadData::Fail) {
  DefectLog log(mode);
  return labelled_arrays(arrays, "d.npz", log);
}

std::string refusal(const std::vector<StateView>& arrays) {
  try {
    read(arrays);
  } catch (const DataError& error) {
    EXPECT_EQ(std::string(error.what()).rfind("d.npz", 0), 0u) << error.what();
    return error.what();
  }
  return "accepted";
}

TEST(LabelledArrays, TakesBothOrdersOfChannels) {
  const LabelledArrays first = read({images({2, 3, 4, 5}), labels({0, 1})});
  EXPECT_EQ(first.train.channels, 3);
  EXPECT_EQ(first.train.height, 4);
  EXPECT_EQ(first.train.width, 5);
  EXPECT_EQ(first.train.pixels[21], 21);
  const LabelledArrays last = read({images({2, 4, 5, 3}), labels({0, 1})});
  EXPECT_EQ(last.train.channels, 3);
  EXPECT_EQ(last.train.height, 4);
  EXPECT_EQ(last.train.pixels[0], 0);
  EXPECT_EQ(last.train.pixels[1], 3);   // the red of the second pixel
  EXPECT_EQ(last.train.pixels[20], 1);  // the green of the first
  EXPECT_EQ(read({images({2, 4, 5}), labels({0, 1})}).train.channels, 1);
  EXPECT_EQ(read({images({2, 7, 8, 8}), labels({0, 1})}).train.channels, 7);
  EXPECT_EQ(read({images({2, 8, 8, 7}), labels({0, 1})}).train.channels, 7);
  EXPECT_NE(refusal({images({2, 5, 6, 7}), labels({0, 1})}).find("[2, 5, 6, 7]"),
            std::string::npos);
}

TEST(LabelledArrays, MapsFloatsToBytes) {
  const auto pixels = [](std::vector<float> values) {
    return read({array_of("x", ElementType::F32, {2, 1, 2}, std::move(values)), labels({0, 1})});
  };
  EXPECT_EQ(pixels({0, 0.5, 1, 0.2f}).train.pixels, (std::vector<std::uint8_t>{0, 128, 255, 51}));
  EXPECT_EQ(pixels({0, 0.5, 1.0005f, 0.2f}).train.pixels[2], 255) << "above one by rounding";
  EXPECT_EQ(pixels({0, 1, 2, 3}).train.pixels, (std::vector<std::uint8_t>{0, 1, 2, 3}));
  EXPECT_EQ(pixels({0, 1.5, 3, 2}).train.pixels, (std::vector<std::uint8_t>{0, 128, 255, 170}));
  EXPECT_EQ(pixels({0, 2.6f, 200, 255}).train.pixels, (std::vector<std::uint8_t>{0, 3, 200, 255}));
  const LabelledArrays centred = pixels({-1, 0, 1, 0.5});
  EXPECT_EQ(centred.train.pixels, (std::vector<std::uint8_t>{0, 128, 255, 191}));
  ASSERT_EQ(centred.notices.size(), 1u);
  EXPECT_NE(centred.notices[0].find("8 bits"), std::string::npos);
}

TEST(LabelledArrays, ReadsHalvesAndDoubles) {
  const LabelledArrays half =
      read({array_of<std::uint16_t>("x", ElementType::F16, {2, 1, 1}, {0x3c00, 0x3800}),
            labels({0, 1})});
  EXPECT_EQ(half.train.pixels, (std::vector<std::uint8_t>{255, 128}));
  const LabelledArrays brain = read(
      {array_of<std::uint16_t>("x", ElementType::BF16, {2, 1, 1}, {0x3f80, 0}), labels({0, 1})});
  EXPECT_EQ(brain.train.pixels, (std::vector<std::uint8_t>{255, 0}));
  const LabelledArrays wide =
      read({array_of<double>("x", ElementType::F64, {2, 1, 1}, {0, 1}), labels({0, 1})});
  EXPECT_EQ(wide.train.pixels, (std::vector<std::uint8_t>{0, 255}));
}

TEST(LabelledArrays, DropsImagesThatAreNotFinite) {
  std::vector<float> values(400, 0.5f);
  values[0] = 0;
  values[7] = std::nanf("");
  std::vector<std::int64_t> all(400);
  for (std::size_t i = 0; i < 400; ++i) all[i] = static_cast<std::int64_t>(i % 2);
  DefectLog log(BadDataRule(BadData::Skip, 0.01));
  const LabelledArrays arrays = labelled_arrays(
      std::vector{array_of("x", ElementType::F32, {400, 1, 1}, values), labels(all)}, "d.npz", log);
  EXPECT_EQ(arrays.train.count, 399);
  EXPECT_EQ(arrays.train.labels[7], 0);  // that of sample 8
  const auto findings = log.take();
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].record, 7);
  EXPECT_EQ(findings[0].defect, Defect::NotFinite);
}

TEST(LabelledArrays, NamesWhatIsWrong) {
  const StateView x = images({2, 4, 4});
  EXPECT_NE(refusal({x}).find("'y' is missing"), std::string::npos);
  EXPECT_NE(refusal({labels({0, 1})}).find("'x' is missing"), std::string::npos);
  EXPECT_NE(refusal({x, labels({0, 1, 1})}).find("3 labels for 2 images"), std::string::npos);
  EXPECT_NE(refusal({x, labels({0, -1})}).find("element 1 is -1"), std::string::npos);
  EXPECT_NE(refusal({x, labels({0, 1 << 20})}).find("element 1"), std::string::npos);
  EXPECT_NE(refusal({x, labels({0, 0})}).find("one class only"), std::string::npos);
  EXPECT_NE(refusal({x, labels({0, 2})}).find("class 1 of 3"), std::string::npos);
  EXPECT_NE(refusal({x, labels({0, 1}), images({2, 4, 4}, "x_test")}).find("y_test"),
            std::string::npos);
  EXPECT_NE(refusal({x, labels({0, 1}), images({2, 4, 5}, "x_test"), labels({0, 1}, "y_test")})
                .find("x_test"),
            std::string::npos);
  EXPECT_NE(refusal({x, labels({0, 1}), images({2, 4, 4}, "x_test"), labels({0, 5}, "y_test")})
                .find("record 1"),
            std::string::npos);
  EXPECT_NE(refusal({x, array_of<float>("y", ElementType::F32, {2}, {0, 1})}).find("floats"),
            std::string::npos);
  EXPECT_NE(
      refusal({array_of<std::int16_t>("x", ElementType::I16, {2, 1, 1}, {0, 1}), labels({0, 1})})
          .find("I16"),
      std::string::npos);
  EXPECT_NE(refusal({images({0, 4, 4}), labels({})}).find("empty"), std::string::npos);
}

TEST(LabelledArrays, ReadsBothKindsOfFiles) {
  const test::TestFolder folder;
  const test::Bytes x = test::npy_of("|u1", false, "(2, 1, 1)", test::bytes_of("ab"));
  const test::Bytes y =
      test::npy_of("<i8", false, "(2,)",
                   test::bytes_of(std::string_view("\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16)));
  const fs::path npz =
      folder.write("d.npz", test::zip_of({{"x.npy", x, true}, {"y.npy", y, true}}));
  const fs::path tensors = folder.path() / "d.safetensors";
  write_safetensors(tensors,
                    std::vector{array_of<std::uint8_t>("x", ElementType::U8, {2, 1, 1}, {'a', 'b'}),
                                labels({1, 0})});
  for (const fs::path& file : {npz, tensors}) {
    DefectLog log(BadData::Fail);
    const LabelledArrays arrays = read_labelled_arrays(file, log);
    EXPECT_EQ(arrays.train.pixels, (std::vector<std::uint8_t>{'a', 'b'})) << file;
    EXPECT_EQ(arrays.train.labels, (std::vector<std::int32_t>{1, 0}));
    EXPECT_EQ(arrays.classes, 2);
  }
}

std::vector<std::string> below(const fs::path& root, const ImageFiles& split) {
  std::vector<std::string> names;
  for (const fs::path& file : split.files) names.push_back(file.lexically_relative(root).string());
  return names;
}

ImageFolder scan(const fs::path& folder, BadData mode = BadData::Fail) {
  DefectLog log(mode);
  return scan_image_folder(folder, log);
}

std::string folder_refusal(const fs::path& folder) {
  try {
    scan(folder);
  } catch (const DataError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(ImageFolder, ListsClassesAndImagesByName) {
  const test::TestFolder root;
  for (const char* name :
       {"dog/2.jpg", "dog/1.PNG", "cat/more/3.jpeg", "cat/notes.txt", "cat/.hidden.png"})
    root.write(name, {});
  root.write("cat/old.webp", {});
  const ImageFolder found = scan(root.path());
  EXPECT_EQ(found.classes, (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(below(root.path(), found.train),
            (std::vector<std::string>{"cat/more/3.jpeg", "dog/1.PNG", "dog/2.jpg"}));
  EXPECT_EQ(found.train.labels, (std::vector<std::int32_t>{0, 1, 1}));
  EXPECT_TRUE(found.test.files.empty());
  ASSERT_EQ(found.notices.size(), 1u);
  EXPECT_NE(found.notices[0].find(".webp"), std::string::npos);
}

TEST(ImageFolder, TakesTrainAndTestFolders) {
  const test::TestFolder root;
  for (const char* name : {"train/a/1.png", "train/b/2.png", "val/b/3.png", "test/a/4.png"})
    root.write(name, {});
  const ImageFolder found = scan(root.path());
  EXPECT_EQ(below(root.path(), found.train),
            (std::vector<std::string>{"train/a/1.png", "train/b/2.png"}));
  EXPECT_EQ(below(root.path(), found.test), (std::vector<std::string>{"test/a/4.png"}));
  ASSERT_EQ(found.notices.size(), 1u);  // val is not used
  const test::TestFolder vehicles;
  for (const char* name : {"train/1.png", "plane/2.png"}) vehicles.write(name, {});
  EXPECT_EQ(scan(vehicles.path()).classes, (std::vector<std::string>{"plane", "train"}));
}

TEST(ImageFolder, NamesWhatIsWrong) {
  const test::TestFolder empty, one, hollow, strange;
  EXPECT_NE(folder_refusal(empty.path()).find("no class folders"), std::string::npos);
  one.write("cat/1.png", {});
  EXPECT_NE(folder_refusal(one.path()).find("one class only, 'cat'"), std::string::npos);
  hollow.write("cat/1.png", {});
  hollow.write("dog/readme.txt", {});
  EXPECT_NE(folder_refusal(hollow.path()).find("dog: no PNG or JPEG"), std::string::npos);
  for (const char* name : {"train/a/1.png", "train/b/2.png", "test/c/3.png"})
    strange.write(name, {});
  EXPECT_NE(folder_refusal(strange.path()).find("test/c"), std::string::npos);
}

TEST(ImageFolder, FindsLinksInACircle) {
  const test::TestFolder root;
  root.write("cat/1.png", {});
  root.write("dog/2.png", {});
  fs::create_directory_symlink(root.path(), root.path() / "cat/back");
  fs::create_symlink("self.png", root.path() / "dog/self.png");
  EXPECT_NE(folder_refusal(root.path()).find("circle"), std::string::npos);
  DefectLog log(BadData::Report);
  const ImageFolder found = scan_image_folder(root.path(), log);
  const auto findings = log.take();
  EXPECT_GE(findings.size(), 2u);
  EXPECT_TRUE(std::ranges::all_of(
      findings, [](const Finding& f) { return f.defect == Defect::SymlinkLoop; }));
  EXPECT_LT(found.train.files.size(), 100u);
}

}  // namespace
}  // namespace triaccel
