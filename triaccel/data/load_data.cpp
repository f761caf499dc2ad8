#include "triaccel/data/load_data.h"

#include <algorithm>
#include <utility>

#include "triaccel/base/error.h"
#include "triaccel/base/nearest_name.h"
#include "triaccel/data/image_data.h"
#include "triaccel/data/point_data.h"
#include "triaccel/data/sampler.h"
#include "triaccel/data/synthetic_images.h"
#include "triaccel/data/text_data.h"
#include "triaccel/formats/cifar.h"
#include "triaccel/formats/data_root.h"
#include "triaccel/formats/idx.h"
#include "triaccel/formats/point_cloud.h"
#include "triaccel/formats/text_corpus.h"

namespace triaccel {
namespace {

constexpr std::uint64_t kHoldOutStream = std::uint64_t{1} << 50;  // of the seed, apart from others

void note_findings(LoadedData& data, const std::vector<Finding>& findings) {
  constexpr std::size_t most = 20;
  for (std::size_t i = 0; i < std::min(most, findings.size()); ++i)
    data.notices.push_back(finding_text(findings[i]));
  if (findings.size() > most)
    data.notices.push_back(text(findings.size() - most, " more records were dropped"));
}

/// Draws the held-out samples first, so that `train_samples` does not change which they are.
void split_training_set(LoadedData& data, const DataOptions& options) {
  const std::int64_t all = data.train->size();
  require(options.validation_samples >= 0 && options.validation_samples < all, "--val-split",
          options.validation_samples, " of ", all, " training samples cannot be held out");
  const std::vector<std::int64_t> order = shuffled_numbers(all, options.seed, kHoldOutStream);
  const auto held = static_cast<std::ptrdiff_t>(options.validation_samples);
  data.validation_ids.assign(order.begin(), order.begin() + held);
  data.training_ids.assign(order.begin() + held, order.end());
  const auto wanted = static_cast<std::size_t>(options.train_samples);
  if (wanted > 0 && wanted < data.training_ids.size()) data.training_ids.resize(wanted);
  // In file order, gathering touches memory in order where batches allow it.
  std::ranges::sort(data.training_ids);
  std::ranges::sort(data.validation_ids);
}

ImageSplits read_images(const DataOptions& options) {
  if (options.name == "synthetic") return synthetic_images({.seed = options.seed});
  const auto folder = find_data_folder(options.name, options.root);
  if (options.name == "cifar10") return read_cifar10(folder, options.bad_data);
  if (options.name == "cifar100") return read_cifar100(folder, options.bad_data);
  return read_idx_set(folder, options.name, options.bad_data);
}

void load_images(LoadedData& data, const DataOptions& options, c10::Device device) {
  const ImageSplits splits = read_images(options);
  note_findings(data, splits.findings);
  const PixelStatistics statistics = pixel_statistics(splits.train);
  // Handwritten digits are not the same mirrored; photographs and garments are.
  const ImageDataOptions image_options{
      .image_size = options.image_size,
      .padding = splits.train.width >= 32 ? 4 : 2,
      .flip = options.name != "mnist" && options.name != "synthetic",
      .channels_last = options.channels_last};
  data.train = std::make_shared<ImageData>(splits.train, statistics, image_options, device);
  data.test = std::make_shared<ImageData>(splits.test, statistics, image_options, device);
  data.shape = {.input_channels = splits.train.channels,
                .image_size = options.image_size > 0 ? options.image_size : splits.train.width,
                .classes = splits.train.classes};
}

void load_points(LoadedData& data, const DataOptions& options, c10::Device device) {
  const auto folder = find_data_folder(options.name, options.root);
  const PointSplits splits = read_point_clouds(folder, options.bad_data);
  note_findings(data, splits.findings);
  data.train = std::make_shared<PointData>(splits.train, device);
  data.test = std::make_shared<PointData>(splits.test, device);
  data.shape = {.input_channels = 3, .classes = splits.train.classes};
}

void load_text(LoadedData& data, const DataOptions& options, c10::Device device) {
  const auto folder = find_data_folder(options.name, options.root);
  const TextCorpus corpus = read_text_corpus(folder, options.bad_data);
  note_findings(data, corpus.findings);
  data.train = std::make_shared<TextData>(corpus.train, options.context_length, device,
                                          /*may_shift=*/options.validation_samples == 0);
  data.test = std::make_shared<TextData>(corpus.validation, options.context_length, device);
  data.shape = {.classes = static_cast<std::int64_t>(corpus.vocabulary.size())};
}

}  // namespace

std::vector<std::string> all_data_names() {
  std::vector<std::string> names = {"synthetic"};
  names.insert(names.end(), data_set_names().begin(), data_set_names().end());
  return names;
}

LoadedData load_data(const DataOptions& options, c10::Device device) {
  const std::vector<std::string> known = all_data_names();
  require(std::ranges::find(known, options.name) != known.end(), "--data", "unknown data set '",
          options.name, "'", suggestion(options.name, known));
  LoadedData data;
  if (options.name == "modelnet40") {
    load_points(data, options, device);
  } else if (options.name == "text") {
    load_text(data, options, device);
  } else {
    load_images(data, options, device);
  }
  if (data.train->size() == 0 || data.test->size() == 0)  // BadData::Report lets nothing pass, too
    throw DataError(text("[--data] no usable record is left in '", options.name,
                         "': ", data.notices.empty() ? "it is empty" : data.notices.front()));
  split_training_set(data, options);
  return data;
}

}  // namespace triaccel
