#include "triaccel/trainer/evaluate/predict.h"

#include <torch/torch.h>

#include <algorithm>

#include "triaccel/base/error.h"
#include "triaccel/data/data_files.h"
#include "triaccel/data/image_data.h"
#include "triaccel/formats/file_bytes.h"
#include "triaccel/formats/idx.h"
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

std::vector<fs::path> files_of(const fs::path& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    require(fs::exists(path, error), "predict", "'", path.string(), "' does not exist");
    return {path};
  }
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(path, error))
    if (entry.is_regular_file(error) && is_read(entry.path())) files.push_back(entry.path());
  require(!files.empty(), "predict", "'", path.string(),
          "' contains no readable file; pass IDX images or safetensors");
  std::ranges::sort(files);
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

ImageSet read_image_file(const fs::path& file) {
  ImageSet set = is_idx(file) ? read_idx(file) : read_tensors(file);
  set.name = file.string();
  set.labels.resize(static_cast<std::size_t>(set.count));
  return set;
}

/// Images are prepared as those of the run's test set.
struct Preparation {
  explicit Preparation(const RunConfig& config, bool channels_last)
      : like(read_images({.name = config.data.name,
                          .root = config.data.root,
                          .rotation = config.data.rotation,
                          .bad_data = BadData(config.data.bad_data),
                          .seed = static_cast<std::uint64_t>(config.train.seed)})
                 .train),
        statistics(pixel_statistics(like)),
        options{.image_size = config.data.image_size, .channels_last = channels_last} {
    like.pixels.clear();
  }

  void check(const ImageSet& set) const {
    if (set.channels != like.channels || set.height != like.height || set.width != like.width)
      throw DataError(text("[predict] ", set.name, ": images of ", set.channels, "x", set.height,
                           "x", set.width, ", but the run was trained on images of ", like.channels,
                           "x", like.height, "x", like.width));
  }

  ImageSet like;
  PixelStatistics statistics;
  ImageDataOptions options;
};

}  // namespace

std::vector<Prediction> predict_run(const fs::path& run, const fs::path& images,
                                    const ConfigChange& change, const WarningFunction& warn) {
  const std::vector<fs::path> files = files_of(images);
  const RunConfig config = trained_config(run, change);
  require(takes_images(config) && !trains_in_integers(config), "predict",
          "requires a run on images by a floating-point method; '", run.string(),
          "' was trained by ", config.train.method, " on ", config.data.name);
  RunParts parts(config);
  TorchEngine engine(config, parts);
  const StepPlan plan = restore_trained(engine, run, warn).plan;
  const Preparation prepared(config, parts.channels_last);
  const EvaluationMode mode(*parts.network.module);
  const at::NoGradGuard no_grad;
  std::optional<ScopedAverage> averaged;
  if (WeightAverage* average = parts.runner->weight_average()) averaged.emplace(*average);
  std::vector<Prediction> predictions;
  for (const fs::path& file : files) {
    ImageSet set = read_image_file(file);
    if (set.count == 0) continue;
    prepared.check(set);
    const ImageData data(set, prepared.statistics, prepared.options, parts.on.device);
    for (std::int64_t first = 0; first < set.count; first += plan.micro_batch_size) {
      const std::int64_t last = std::min(set.count, first + plan.micro_batch_size);
      const at::Tensor ids = at::arange(first, last).to(parts.on.device);
      const ReadingWeights weights(parts.runner->forward_rules().layers);
      const at::Tensor logits = forward_pass(parts.network.forward, data.gather(ids, {}).inputs,
                                             parts.runner->forward_rules());
      const auto [probability, label] = logits.to(at::kFloat).softmax(1).max(1);
      const at::Tensor found = probability.cpu(), classes = label.cpu();
      for (std::int64_t i = 0; i < last - first; ++i)
        predictions.push_back({.file = file.string(),
                               .image = first + i,
                               .label = classes[i].item<std::int64_t>(),
                               .probability = found[i].item<double>()});
    }
  }
  return predictions;
}

}  // namespace triaccel
