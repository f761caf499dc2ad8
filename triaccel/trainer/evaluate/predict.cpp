#include "triaccel/trainer/evaluate/predict.h"

#include <torch/torch.h>

#include <algorithm>
#include <iterator>

#include "triaccel/base/error.h"
#include "triaccel/data/data_files.h"
#include "triaccel/data/image_data.h"
#include "triaccel/data/own_data.h"
#include "triaccel/formats/file_bytes.h"
#include "triaccel/formats/idx.h"
#include "triaccel/formats/image_file.h"
#include "triaccel/formats/image_folder.h"
#include "triaccel/formats/safetensors.h"
#include "triaccel/trainer/config/options.h"
#include "triaccel/trainer/loop/torch_engine.h"
#include "triaccel/trainer/loop/training.h"

namespace triaccel {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMostImageBytes = std::uint64_t{1} << 32;

bool is_idx(const fs::path& file) {
  const std::string name = file.filename().string();
  return name.find("idx3-ubyte") != std::string::npos || name.ends_with(".idx") ||
         name.ends_with(".idx.gz");
}

bool is_read(const fs::path& file) { return is_idx(file) || file.extension() == ".safetensors"; }

bool is_picture(const fs::path& file) { return is_image_name(file.filename().string()); }

std::vector<fs::path> files_of(const fs::path& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    require(fs::exists(path, error), "predict", "'", path.string(), "' does not exist");
    return {path};
  }
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(path, error))
    if (entry.is_regular_file(error) && is_read(entry.path())) files.push_back(entry.path());
  std::ranges::sort(files);
  DefectLog log(BadData::Report);  // links in a circle are passed over
  std::ranges::move(images_below(path, log), std::back_inserter(files));
  require(!files.empty(), "predict", "'", path.string(),
          "' holds no file that can be read; give PNG, JPEG, IDX images or safetensors");
  return files;
}

void append(ImageSet& set, std::span<const std::byte> pixels) {
  const auto* const first = reinterpret_cast<const std::uint8_t*>(pixels.data());
  set.pixels.insert(set.pixels.end(), first, first + pixels.size());
}

ImageSet read_idx(const fs::path& file) {
  std::vector<std::byte> bytes = read_file(file, kMostImageBytes);
  if (file.extension() == ".gz") bytes = inflate_gzip(bytes, kMostImageBytes, file.string());
  DefectLog log(BadData::Fail);
  const IdxImages images = parse_idx_images(bytes, file.string(), log);
  ImageSet set{
      .count = images.count, .channels = 1, .height = images.height, .width = images.width};
  append(set, images.pixels);
  return set;
}

ImageSet read_tensors(const fs::path& file) {
  ImageSet set;
  for (const StateView& tensor : read_safetensors(file).tensors) {
    std::vector<std::int64_t> shape = tensor.shape;
    const std::size_t dimensions = shape.size();
    if (tensor.type != ElementType::U8 || dimensions < 2 || dimensions > 4)
      throw DataError(text("[predict] ", file.string(), ": tensor '", tensor.name,
                           "' is not of type U8 and shape [N, C, H, W], [N, H, W] or [H, W]"));
    while (shape.size() < 3) shape.insert(shape.begin(), 1);
    if (shape.size() == 3) shape.insert(shape.begin() + 1, 1);
    const bool fits = set.count == 0 ||
                      (set.channels == shape[1] && set.height == shape[2] && set.width == shape[3]);
    if (!fits)
      throw DataError(
          text("[predict] ", file.string(), ": images of several sizes; use one file for each"));
    set.count += shape[0];
    set.channels = shape[1];
    set.height = shape[2];
    set.width = shape[3];
    append(set, tensor.bytes);
  }
  return set;
}

/// A PNG or JPEG, resized as the run's images are; grey where the run's are.
ImageSet read_picture(const fs::path& file, const LoadedData& like) {
  if (!can_decode_images()) throw DataError(text("[predict] ", no_image_decoder()));
  if (like.stored_height != like.stored_width || like.shape.input_channels % 2 == 0 ||
      like.shape.input_channels > 3)
    throw DataError(text("[predict] ", file.string(), ": the run takes images of ",
                         like.shape.input_channels, "x", like.stored_height, "x", like.stored_width,
                         ", which a PNG or JPEG cannot give; use safetensors"));
  const std::int64_t size = like.stored_width, plane = size * size;
  ImageSet set{.count = 1, .channels = like.shape.input_channels, .height = size, .width = size};
  set.pixels.resize(static_cast<std::size_t>(3 * plane));
  read_image_planes(file, size, set.pixels);
  if (set.channels == 1) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(plane); ++i) {
      const auto at = [&](std::size_t c) -> std::uint32_t {
        return set.pixels[c * static_cast<std::size_t>(plane) + i];
      };
      set.pixels[i] =
          static_cast<std::uint8_t>((299 * at(0) + 587 * at(1) + 114 * at(2) + 500) / 1000);
    }
    set.pixels.resize(static_cast<std::size_t>(plane));
  }
  return set;
}

ImageSet read_image_file(const fs::path& file, const LoadedData& like) {
  ImageSet set = is_idx(file)       ? read_idx(file)
                 : is_picture(file) ? read_picture(file, like)
                                    : read_tensors(file);
  if (set.count > 0 && (set.channels != like.shape.input_channels ||
                        set.height != like.stored_height || set.width != like.stored_width))
    throw DataError(text("[predict] ", file.string(), ": images of ", set.channels, "x", set.height,
                         "x", set.width, ", but the run was trained on images of ",
                         like.shape.input_channels, "x", like.stored_height, "x",
                         like.stored_width));
  set.name = file.string();
  set.labels.resize(static_cast<std::size_t>(set.count));
  return set;
}

/// Images of one file, or as many pictures in a row as a pass takes.
struct Group {
  ImageSet images = {};
  std::vector<fs::path> files = {};  // one, or one per image
};

/// Reads `files` from `next` on.
Group read_group(const std::vector<fs::path>& files, std::size_t& next, std::int64_t most,
                 const LoadedData& like) {
  Group group{.images = read_image_file(files[next], like), .files = {files[next]}};
  ++next;
  if (!is_picture(group.files.front())) return group;
  while (next < files.size() && is_picture(files[next]) && group.images.count < most) {
    const ImageSet one = read_image_file(files[next], like);
    append(group.images, std::as_bytes(std::span(one.pixels)));
    ++group.images.count;
    group.files.push_back(files[next++]);
  }
  group.images.labels.resize(static_cast<std::size_t>(group.images.count));
  return group;
}

}  // namespace

std::vector<Prediction> predict_run(const fs::path& run, const fs::path& images,
                                    const ConfigChange& change, const WarningFunction& warn) {
  const std::vector<fs::path> files = files_of(images);
  RunConfig config = trained_config(run, change);
  config.device.budget = {};  // that of training, where as many images need not fit
  require(takes_images(config) && !trains_in_integers(config), "predict",
          "requires a run on images by a floating-point method; '", run.string(),
          "' was trained by ", config.train.method, " on ", config.data.name);
  RunParts parts(config, {}, {}, {}, UnderBudget::KeepAll);
  TorchEngine engine(config, parts);
  const StepPlan plan = restore_trained(engine, run, warn).plan;
  const EvaluationMode mode(*parts.network.module);
  const at::NoGradGuard no_grad;
  std::optional<ScopedAverage> averaged;
  if (WeightAverage* average = parts.runner->weight_average()) averaged.emplace(*average);
  std::vector<Prediction> predictions;
  const std::vector<std::string>& names = parts.data.image_options.class_names;
  for (std::size_t next = 0; next < files.size();) {
    const Group group = read_group(files, next, plan.micro_batch_size, parts.data);
    const ImageSet& set = group.images;
    if (set.count == 0) continue;
    const ImageData data(set, parts.data.statistics, parts.data.image_options, parts.on.device);
    for (std::int64_t first = 0; first < set.count; first += plan.micro_batch_size) {
      const std::int64_t last = std::min(set.count, first + plan.micro_batch_size);
      const at::Tensor ids = at::arange(first, last).to(parts.on.device);
      const ReadingWeights weights(parts.runner->forward_rules().layers);
      const at::Tensor logits = forward_pass(parts.network.forward, data.gather(ids, {}).inputs,
                                             parts.runner->forward_rules());
      const auto [probability, label] = logits.to(at::kFloat).softmax(1).max(1);
      const at::Tensor found = probability.cpu(), classes = label.cpu();
      for (std::int64_t i = 0; i < last - first; ++i) {
        const bool pictures = group.files.size() > 1;
        const auto number = classes[i].item<std::int64_t>();
        predictions.push_back(
            {.file = group.files[pictures ? static_cast<std::size_t>(first + i) : 0].string(),
             .image = pictures ? 0 : first + i,
             .label = number,
             .probability = found[i].item<double>(),
             .name = names.empty() ? "" : names[static_cast<std::size_t>(number)]});
      }
    }
  }
  return predictions;
}

}  // namespace triaccel
