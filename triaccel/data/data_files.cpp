#include "triaccel/data/data_files.h"

#include <algorithm>
#include <utility>

#include "triaccel/base/error.h"
#include "triaccel/data/own_data.h"
#include "triaccel/formats/cifar.h"
#include "triaccel/formats/data_root.h"
#include "triaccel/formats/idx.h"
#include "triaccel/formats/image_set.h"

namespace triaccel {
namespace {

ImageSplits read_upright_images(const DataOptions& options) {
  if (options.name == "synthetic") return synthetic_images({.seed = options.seed});
  const auto folder = find_data_folder(options.name, options.root);
  if (options.name == "cifar10") return read_cifar10(folder, options.bad_data);
  if (options.name == "cifar100") return read_cifar100(folder, options.bad_data);
  return read_idx_set(folder, options.name, options.bad_data);
}

ImageSet as_image_set(ImageSource&& source, const OwnData& data, const std::string& name) {
  return {.name = name,
          .count = source.count,
          .channels = source.channels,
          .height = source.height,
          .width = source.width,
          .classes = std::ssize(data.classes),
          .pixels = std::move(source.pixels),
          .labels = {source.labels.begin(), source.labels.end()}};
}

ImageSplits read_own_images(DataOptions options, std::vector<std::string>* notices) {
  options.decoded_bytes = DataOptions::kAnyNumber;
  OwnData data = read_own_data(options);
  require(data.classes.size() <= 256, "--data", data.classes.size(),
          " classes; integer training takes at most 256");
  if (notices != nullptr) *notices = data.notices;
  return {.train = as_image_set(std::move(data.train), data, options.name),
          .test = as_image_set(std::move(data.test), data, options.name)};
}

}  // namespace

ImageSplits read_images(const DataOptions& options, std::vector<std::string>* notices) {
  if (is_own_data(options.name)) return read_own_images(options, notices);
  ImageSplits splits = read_upright_images(options);
  rotate_images(splits.train, options.rotation);
  rotate_images(splits.test, options.rotation);
  return splits;
}

PointSplits read_points(const DataOptions& options) {
  return read_point_clouds(find_data_folder(options.name, options.root), options.bad_data);
}

std::vector<std::string> finding_notices(const std::vector<Finding>& findings) {
  constexpr std::size_t most = 20;
  std::vector<std::string> notices;
  for (std::size_t i = 0; i < std::min(most, findings.size()); ++i)
    notices.push_back(finding_text(findings[i]));
  if (findings.size() > most)
    notices.push_back(text(findings.size() - most, " more records dropped"));
  return notices;
}

}  // namespace triaccel
