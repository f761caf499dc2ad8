#include "triaccel/data/load_data.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "triaccel/base/byte_size.h"
#include "triaccel/base/error.h"
#include "triaccel/core/sampler.h"
#include "triaccel/data/image_data.h"
#include "triaccel/data/own_data.h"
#include "triaccel/data/text_data.h"
#include "triaccel/formats/data_root.h"
#include "triaccel/formats/point_cloud.h"
#include "triaccel/formats/text_corpus.h"

namespace triaccel {
namespace {

/// Point clouds stored as 16-bit coordinates; a batch is float [B, 3, points] in [-1, 1].
class PointData final : public Dataset {
 public:
  PointData(const PointSet& set, const DataPlace& place);

  std::int64_t size() const override { return labels_.numel(); }
  std::int64_t bytes() const override { return coordinates_.device_bytes() + labels_.numel(); }
  std::int64_t host_bytes() const override { return coordinates_.host_bytes(); }
  void move_to(const DataPlace& place) override { coordinates_ = coordinates_.moved_to(place); }
  Batch gather(const at::Tensor& ids, const GatherOptions& options) const override;

 private:
  StoredSamples coordinates_;  // int16 [count, 3, points]: 0 to 1023
  at::Tensor labels_;          // uint8 [count]
};

// Ten bits fit int16, which libtorch supports everywhere, unlike uint16.
PointData::PointData(const PointSet& set, const DataPlace& place)
    : coordinates_(StoredSamples::copy(set.coordinates.data(), {set.count, 3, set.points},
                                       at::kShort, place)),
      labels_(
          StoredSamples::copy(set.labels.data(), {set.count}, at::kByte, place.device).tensor()) {}

Batch PointData::gather(const at::Tensor& ids, const GatherOptions&) const {
  constexpr double scale = 2.0 / kLargestCoordinate;
  return {coordinates_.tensor().index_select(0, ids).to(at::kFloat).mul_(scale).sub_(1),
          labels_.index_select(0, ids).to(at::kLong)};
}

/// Where a set of so many bytes goes. What stays in host memory is told in the notices.
DataPlace place_of(LoadedData& data, const DataOptions& options, std::size_t bytes,
                   c10::Device device) {
  const auto total = static_cast<std::int64_t>(bytes);
  if (total <= options.device_bytes) return device;
  data.notices.push_back(text(options.name, ": ", byte_text(total),
                              " of samples stay in host memory while the network trains"));
  return {device, /*host=*/true};
}

/// Images of both splits, from an ImageSplits or an OwnData.
template <typename Splits>
void make_image_data(LoadedData& data, const Splits& splits, const DataOptions& options,
                     const ImageDataOptions& image_options, c10::Device device) {
  data.image_options = image_options;
  const DataPlace place =
      place_of(data, options, splits.train.pixels.size() + splits.test.pixels.size(), device);
  data.train = std::make_shared<ImageData>(splits.train, data.statistics, image_options, place);
  data.test = std::make_shared<ImageData>(splits.test, data.statistics, image_options, place);
  data.stored_height = splits.train.height;
  data.stored_width = splits.train.width;
  data.shape = {.input_channels = splits.train.channels,
                .image_size = options.image_size > 0 ? options.image_size : splits.train.width};
}

void load_own_images(LoadedData& data, const DataOptions& options, c10::Device device) {
  OwnData own = read_own_data(options);
  data.notices = std::move(own.notices);
  data.statistics = own.statistics;
  make_image_data(data, own, options,
                  {.image_size = options.image_size,
                   .padding = std::max<std::int64_t>(2, own.train.width / 8),
                   .channels_last = options.channels_last,
                   .class_names = own.classes},
                  device);
  data.shape.classes = std::ssize(own.classes);
}

void load_images(LoadedData& data, const DataOptions& options, c10::Device device) {
  const ImageSplits splits = read_images(options);
  data.notices = finding_notices(splits.findings);
  data.statistics = pixel_statistics(splits.train);
  // Mirroring is valid for photographs and garments, not for digits.
  make_image_data(data, splits, options,
                  {.image_size = options.image_size,
                   .padding = splits.train.width >= 32 ? 4 : 2,
                   .flip = options.name != "mnist" && options.name != "synthetic",
                   .channels_last = options.channels_last},
                  device);
  data.shape.classes = splits.train.classes;
}

void load_points(LoadedData& data, const DataOptions& options, c10::Device device) {
  const PointSplits splits = read_points(options);
  data.notices = finding_notices(splits.findings);
  const std::size_t numbers = splits.train.coordinates.size() + splits.test.coordinates.size();
  const DataPlace place = place_of(data, options, numbers * sizeof(std::uint16_t), device);
  data.train = std::make_shared<PointData>(splits.train, place);
  data.test = std::make_shared<PointData>(splits.test, place);
  data.shape = {.input_channels = 3, .classes = splits.train.classes};
}

void load_text(LoadedData& data, const DataOptions& options, c10::Device device) {
  const auto folder = find_data_folder(options.name, options.root);
  const TextCorpus corpus = read_text_corpus(folder, options.bad_data);
  data.notices = finding_notices(corpus.findings);
  const DataPlace place =
      place_of(data, options, corpus.train.size() + corpus.validation.size(), device);
  data.train = std::make_shared<TextData>(corpus.train, options.context_length, place,
                                          /*may_shift=*/options.validation_samples == 0);
  data.test = std::make_shared<TextData>(corpus.validation, options.context_length, place);
  data.shape = {.classes = static_cast<std::int64_t>(corpus.vocabulary.size())};
}

}  // namespace

std::vector<std::string> all_data_names() {
  std::vector<std::string> names = {"synthetic"};
  names.insert(names.end(), data_set_names().begin(), data_set_names().end());
  return names;
}

LoadedData load_data(const DataOptions& options, c10::Device device) {
  LoadedData data;
  if (options.name == "modelnet40") {
    load_points(data, options, device);
  } else if (options.name == "text") {
    load_text(data, options, device);
  } else if (is_own_data(options.name)) {
    load_own_images(data, options, device);
  } else {
    load_images(data, options, device);
  }
  if (data.train->size() == 0 || data.test->size() == 0)  // also possible with BadData::Report
    throw DataError(text("[--data] no usable record in '", options.name,
                         "': ", data.notices.empty() ? "it is empty" : data.notices.front()));
  SampleSplit split = split_samples(data.train->size(), options.validation_samples,
                                    options.train_samples, options.seed);
  data.training_ids = std::move(split.training);
  data.validation_ids = std::move(split.validation);
  return data;
}

}  // namespace triaccel
