#include "triaccel/formats/data_root.h"

#include <algorithm>
#include <system_error>
#include <vector>

#include "triaccel/base/error.h"
#include "triaccel/base/nearest_name.h"

namespace triaccel {
namespace {

namespace fs = std::filesystem;

// Where Debian's dataset-* packages put their files.
constexpr std::string_view kSystemRoot = "/usr/share/datasets";

struct KnownSet {
  std::string name;
  std::vector<std::string> folders;  // below a root, most official first
  std::vector<std::string> files;    // any one of them tells the set's own folder
  std::string next_step;
};

std::vector<std::string> idx_files() {
  std::vector<std::string> files;
  for (const char* part : {"train-images?idx3-ubyte", "train-labels?idx1-ubyte",
                           "t10k-images?idx3-ubyte", "t10k-labels?idx1-ubyte"}) {
    for (const char separator : {'-', '.'}) {
      std::string file = part;
      std::ranges::replace(file, '?', separator);
      files.push_back(file);
      files.push_back(file + ".gz");
    }
  }
  return files;
}

std::span<const KnownSet> known_sets() {
  static const std::vector<KnownSet> sets = {
      {"fashion-mnist",
       {"fashion-mnist", "FashionMNIST/raw", "FashionMNIST", "fashion_mnist"},
       idx_files(),
       "apt-get install dataset-fashion-mnist, or train on --data synthetic"},
      {"mnist",
       {"mnist", "MNIST/raw", "MNIST"},
       idx_files(),
       "fetch the four idx files of https://ossci-datasets.s3.amazonaws.com/mnist/ into a folder "
       "and name it with --data-root"},
      {"cifar10",
       {"cifar-10-batches-bin", "cifar10", "cifar-10"},
       {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
        "data_batch_5.bin", "test_batch.bin"},
       "unpack https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz and name its folder with "
       "--data-root"},
      {"cifar100",
       {"cifar-100-binary", "cifar100", "cifar-100"},
       {"train.bin", "test.bin"},
       "unpack https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz and name its folder with "
       "--data-root"},
      {"modelnet40",
       {"modelnet40", "ModelNet40"},
       {"train_1024_q10.u16", "test_1024_q10.u16", "train_labels.u8", "test_labels.u8",
        "shape_names.txt"},
       "name the folder that holds {train,test}_1024_q10.u16, {train,test}_labels.u8 and "
       "shape_names.txt with --data-root"},
      {"text",
       {"text", "tinyshakespeare"},
       {"tinyshakespeare.txt", "tinyshakespeare.txt.gz", "input.txt", "input.txt.gz"},
       "fetch tinyshakespeare/input.txt of https://github.com/karpathy/char-rnn, or any text, as "
       "tinyshakespeare.txt and name its folder with --data-root"},
  };
  return sets;
}

bool holds_any(const fs::path& folder, const std::vector<std::string>& files) {
  return std::ranges::any_of(files, [&](const std::string& file) {
    std::error_code error;
    return fs::exists(folder / file, error);
  });
}

}  // namespace

std::span<const std::string> data_set_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const KnownSet& set : known_sets()) all.push_back(set.name);
    return all;
  }();
  return names;
}

fs::path find_data_folder(std::string_view name, const fs::path& root) {
  const auto known = std::ranges::find(known_sets(), name, &KnownSet::name);
  if (known == known_sets().end())
    throw UsageError(
        text("[--data] no such data set '", name, "'", suggestion(name, data_set_names())));
  const KnownSet& set = *known;

  const fs::path base = root.empty() ? fs::path(kSystemRoot) : root;
  std::vector<fs::path> places;
  // The folder for all sets is never one set's own.
  if (!root.empty()) places.push_back(base);
  for (const std::string& folder : set.folders) places.push_back(base / folder);
  for (const fs::path& place : places)
    if (holds_any(place, set.files)) return place;

  std::string message = text("data set '", name, "' not found; looked for ", set.files.front(),
                             " and its companions in");
  for (const fs::path& place : places) message += text("\n  ", place.string());
  message += text("\nNext: ", set.next_step);
  throw DataError(message);
}

}  // namespace triaccel
