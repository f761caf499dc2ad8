#include "triaccel/formats/data_root.h"

#include <algorithm>
#include <system_error>
#include <vector>

#include "triaccel/base/error.h"
#include "triaccel/base/nearest_name.h"
#include "triaccel/formats/cifar.h"
#include "triaccel/formats/idx.h"
#include "triaccel/formats/point_cloud.h"
#include "triaccel/formats/text_corpus.h"

namespace triaccel {
namespace {

namespace fs = std::filesystem;

// Where Debian's dataset-* packages put their files.
constexpr std::string_view kSystemRoot = "/usr/share/datasets";

struct KnownSet {
  std::string name;
  std::vector<std::string> folders;  // below a root, in order of preference
  std::vector<std::string> files;    // any of them identifies the folder of the set
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
       "download the four idx files of https://ossci-datasets.s3.amazonaws.com/mnist/ to a folder "
       "and pass it with --data-root"},
      {"cifar10",
       {"cifar-10-batches-bin", "cifar10", "cifar-10"},
       {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
        "data_batch_5.bin", "test_batch.bin"},
       "unpack https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz and pass its folder with "
       "--data-root"},
      {"cifar100",
       {"cifar-100-binary", "cifar100", "cifar-100"},
       {"train.bin", "test.bin"},
       "unpack https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz and pass its folder with "
       "--data-root"},
      {"modelnet40",
       {"modelnet40", "ModelNet40"},
       {"train_1024_q10.u16", "test_1024_q10.u16", "train_labels.u8", "test_labels.u8",
        "shape_names.txt"},
       "pass the folder with {train,test}_1024_q10.u16, {train,test}_labels.u8 and "
       "shape_names.txt with --data-root"},
      {"text",
       {"text", "tinyshakespeare"},
       {"tinyshakespeare.txt", "tinyshakespeare.txt.gz", "input.txt", "input.txt.gz"},
       "download tinyshakespeare/input.txt of https://github.com/karpathy/char-rnn, or any text, "
       "as "
       "tinyshakespeare.txt and pass its folder with --data-root"},
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
        text("[--data] unknown data set '", name, "'", suggestion(name, data_set_names())));
  const KnownSet& set = *known;

  const fs::path base = root.empty() ? fs::path(kSystemRoot) : root;
  std::vector<fs::path> places;
  // The system root itself is never the folder of a set.
  if (!root.empty()) places.push_back(base);
  for (const std::string& folder : set.folders) places.push_back(base / folder);
  for (const fs::path& place : places)
    if (holds_any(place, set.files)) return place;

  std::string message = text("data set '", name, "' not found; looked for ", set.files.front(),
                             " and related files in");
  for (const fs::path& place : places) message += text("\n  ", place.string());
  message += text("\nNext: ", set.next_step);
  throw DataError(message);
}

std::vector<Finding> scan_data_set(std::string_view name, const std::filesystem::path& folder) {
  constexpr BadData mode = BadData::Report;
  if (name == "mnist" || name == "fashion-mnist") return read_idx_set(folder, name, mode).findings;
  if (name == "cifar10") return read_cifar10(folder, mode).findings;
  if (name == "cifar100") return read_cifar100(folder, mode).findings;
  if (name == "modelnet40") return read_point_clouds(folder, mode).findings;
  if (name == "text") return read_text_corpus(folder, mode).findings;
  throw UsageError(
      text("[--data] unknown data set '", name, "'", suggestion(name, data_set_names())));
}

}  // namespace triaccel
