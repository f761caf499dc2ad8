#include "triaccel/formats/data_root.h"

#include <gtest/gtest.h>

#include <array>

#include "tests/formats/sample_files.h"

namespace triaccel {
namespace {

using test::bytes_of;
using test::TestFolder;

TEST(FindDataFolder, TakesTheSetsOwnFolder) {
  const TestFolder folder;
  folder.write("test_batch.bin", bytes_of("x"));
  EXPECT_EQ(find_data_folder("cifar10", folder.path()), folder.path());
}

TEST(FindDataFolder, FindsEverySetUnderItsOfficialNames) {
  const std::vector<std::array<std::string, 3>> cases = {
      {"cifar10", "cifar-10-batches-bin", "data_batch_1.bin"},
      {"cifar10", "cifar10", "data_batch_1.bin"},
      {"cifar100", "cifar-100-binary", "train.bin"},
      {"cifar100", "cifar100", "train.bin"},
      {"mnist", "MNIST/raw", "train-images-idx3-ubyte"},
      {"mnist", "mnist", "t10k-labels.idx1-ubyte.gz"},
      {"fashion-mnist", "fashion-mnist", "train-images-idx3-ubyte.gz"},
      {"fashion-mnist", "FashionMNIST/raw", "train-images-idx3-ubyte"},
      {"modelnet40", "modelnet40", "shape_names.txt"},
      {"text", "text", "tinyshakespeare.txt"},
      {"text", "tinyshakespeare", "input.txt"}};
  for (const auto& [set, below, file] : cases) {
    const TestFolder folder;
    folder.write(below + "/" + file, bytes_of("x"));
    EXPECT_EQ(find_data_folder(set, folder.path()), folder.path() / below);
  }
}

TEST(FindDataFolder, KeepsTheTwoMnistsApart) {
  const TestFolder folder;
  folder.write("fashion-mnist/train-images-idx3-ubyte.gz", bytes_of("x"));
  folder.write("mnist/train-images-idx3-ubyte", bytes_of("x"));
  EXPECT_EQ(find_data_folder("mnist", folder.path()), folder.path() / "mnist");
  EXPECT_EQ(find_data_folder("fashion-mnist", folder.path()), folder.path() / "fashion-mnist");
}

TEST(FindDataFolder, ListsEveryPlaceAndTheNextStep) {
  const TestFolder folder;
  try {
    find_data_folder("fashion-mnist", folder.path());
    FAIL() << "found a set in an empty folder";
  } catch (const DataError& error) {
    const std::string message = error.what();
    for (const std::string& part :
         {folder.path().string(), (folder.path() / "fashion-mnist").string(),
          (folder.path() / "FashionMNIST/raw").string(),
          std::string("apt-get install dataset-fashion-mnist")})
      EXPECT_NE(message.find(part), std::string::npos) << part << " not in:\n" << message;
  }
}

TEST(FindDataFolder, LooksWhereDebianPackagesGoWithoutARoot) {
  try {
    EXPECT_EQ(find_data_folder("fashion-mnist", ""), "/usr/share/datasets/fashion-mnist");
  } catch (const DataError& error) {
    EXPECT_NE(std::string(error.what()).find("/usr/share/datasets/fashion-mnist"),
              std::string::npos);
  }
}

TEST(FindDataFolder, AnUnknownSetIsTheCallersMistake) {
  EXPECT_THROW(find_data_folder("cifar11", "/"), UsageError);
}

TEST(FindDataFolder, KnowsEveryNameItLists) {
  for (const std::string& name : data_set_names())
    EXPECT_THROW(find_data_folder(name, "/nonexistent"), DataError) << name;
}

}  // namespace
}  // namespace triaccel
