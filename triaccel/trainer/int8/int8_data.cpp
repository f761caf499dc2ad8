#include "triaccel/trainer/int8/int8_data.h"

#include <utility>

#include "triaccel/base/error.h"

namespace triaccel {
namespace {

Int8Data from_images(const DataOptions& options) {
  std::vector<std::string> notices;
  const ImageSplits splits = read_images(options, &notices);
  for (std::string& dropped : finding_notices(splits.findings))
    notices.push_back(std::move(dropped));
  require(splits.train.height == splits.train.width, "--data",
          "integer training takes square images; these have ", splits.train.width, "x",
          splits.train.height, " pixels");
  require(options.image_size == 0 || options.image_size == splits.train.width, "--image-size",
          "integer training cannot resize images; these have ", splits.train.width,
          " pixels per side");
  return {.train = int8_images(splits.train),
          .test = int8_images(splits.test),
          .notices = std::move(notices),
          .shape = {.channels = splits.train.channels,
                    .image_size = splits.train.width,
                    .classes = splits.train.classes}};
}

Int8Data from_clouds(const DataOptions& options) {
  require(options.rotation == 0, "--rotate", "rotates images only, not the point clouds of '",
          options.name, "'");
  const PointSplits splits = read_points(options);
  return {.train = int8_clouds(splits.train),
          .test = int8_clouds(splits.test),
          .notices = finding_notices(splits.findings),
          .shape = {.channels = 3, .points = splits.train.points, .classes = splits.train.classes}};
}

}  // namespace

Int8Data load_int8_data(const DataOptions& options) {
  require(options.name != "text", "--data",
          "integer networks take images or point clouds, not text");
  Int8Data data = options.name == "modelnet40" ? from_clouds(options) : from_images(options);
  if (data.train.count == 0 || data.test.count == 0)
    throw DataError(text("[--data] no usable record is left in '", options.name,
                         "': ", data.notices.empty() ? "it is empty" : data.notices.front()));
  data.split = split_samples(data.train.count, options.validation_samples, options.train_samples,
                             options.seed);
  return data;
}

}  // namespace triaccel
