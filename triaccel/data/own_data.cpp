#include "triaccel/data/own_data.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "triaccel/base/byte_size.h"
#include "triaccel/base/error.h"
#include "triaccel/base/nearest_name.h"
#include "triaccel/core/sampler.h"
#include "triaccel/data/load_data.h"
#include "triaccel/formats/file_bytes.h"
#include "triaccel/formats/image_file.h"
#include "triaccel/formats/image_folder.h"

namespace triaccel {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxImageFileBytes = std::uint64_t{1} << 28;
constexpr std::int64_t kLargestDefaultSize = 224;
constexpr std::uint64_t kTestStream = std::uint64_t{1} << 51;  // of seed 0: not of the run's seed
constexpr std::int64_t kOneInHeldOut = 10;

/// Calls `work(i)` for i in [0, count) from several threads; throws what the first one throws.
void in_parallel(std::int64_t count, const std::function<void(std::int64_t)>& work) {
  std::atomic<std::int64_t> next = 0;
  std::mutex mutex;
  std::exception_ptr failure;
  const auto run = [&] {
    try {
      for (std::int64_t i = next++; i < count; i = next++) work(i);
    } catch (...) {
      next = count;
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
    }
  };
  std::vector<std::thread> threads;
  const std::int64_t most = std::clamp<std::int64_t>(std::thread::hardware_concurrency(), 1, 32);
  for (std::int64_t i = 1; i < std::min(most, count); ++i) threads.emplace_back(run);
  run();
  for (std::thread& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);
}

/// The samples that become the test set: a tenth of each class, at least one of two.
std::vector<bool> held_out(std::span<const std::int32_t> labels, std::size_t classes) {
  std::vector<std::int64_t> wanted(classes);
  for (const std::int32_t label : labels) ++wanted[static_cast<std::size_t>(label)];
  for (std::int64_t& count : wanted)
    count = count < 2 ? 0 : std::max<std::int64_t>(1, count / kOneInHeldOut);
  std::vector<bool> held(labels.size());
  for (const std::int64_t i : shuffled_numbers(std::ssize(labels), 0, kTestStream)) {
    const auto number = static_cast<std::size_t>(i);
    if (wanted[static_cast<std::size_t>(labels[number])]-- > 0) held[number] = true;
  }
  return held;
}

std::string held_out_notice(const std::string& path, std::size_t held, std::size_t all) {
  return text(path, ": no test set; ", held, " of ", all,
              " samples, a tenth of each class, are held out as test set");
}

/// The samples of `held` leave the first set for the second.
void move_held_out(LabelledImages& from, LabelledImages& to, const std::vector<bool>& held) {
  to = {.channels = from.channels, .height = from.height, .width = from.width};
  const auto bytes = static_cast<std::ptrdiff_t>(from.channels * from.height * from.width);
  LabelledImages rest = to;
  for (std::size_t i = 0; i < held.size(); ++i) {
    LabelledImages& into = held[i] ? to : rest;
    const auto first = from.pixels.begin() + static_cast<std::ptrdiff_t>(i) * bytes;
    into.pixels.insert(into.pixels.end(), first, first + bytes);
    into.labels.push_back(from.labels[i]);
    ++into.count;
  }
  from = std::move(rest);
}

void rotate(std::span<std::uint8_t> pixels, const LabelledImages& like, double degrees) {
  if (degrees == 0) return;
  ImageSet set{.count = 1, .channels = like.channels, .height = like.height, .width = like.width};
  set.pixels.assign(pixels.begin(), pixels.end());
  rotate_images(set, degrees);
  std::ranges::copy(set.pixels, pixels.begin());
}

/// Decodes every image of a split once; see read_own_data.
class SplitReader {
 public:
  SplitReader(const DataOptions& options, std::int64_t size, bool resident, DefectLog& log)
      : rotation_(options.rotation), resident_(resident), log_(log) {
    source_.channels = 3;
    source_.height = source_.width = size;
  }

  ImageSource read(const std::string& folder, ImageFiles split, PixelSums* sums) {
    const std::int64_t count = std::ssize(split.files);
    const auto bytes = static_cast<std::size_t>(3 * source_.height * source_.width);
    std::vector<std::string> problems(split.files.size());
    if (resident_) source_.pixels.resize(bytes * split.files.size());
    std::mutex mutex;
    in_parallel(count, [&](std::int64_t i) {
      const auto number = static_cast<std::size_t>(i);
      std::vector<std::uint8_t> own(resident_ ? 0 : bytes);
      const std::span<std::uint8_t> planes =
          resident_ ? std::span(source_.pixels).subspan(number * bytes, bytes) : std::span(own);
      try {
        read_image_planes(split.files[number], source_.width, planes);
      } catch (const DefectError& error) {
        const Finding& finding = error.finding;
        problems[number] = finding.defect == Defect::BrokenImage
                               ? finding.detail
                               : text(defect_name(finding.defect), ": ", finding.detail);
        return;
      }
      rotate(planes, source_, rotation_);
      if (sums == nullptr) return;
      PixelSums of_image(source_.channels);
      of_image.add(planes);
      const std::lock_guard lock(mutex);
      *sums += of_image;
    });
    drop_broken(split, problems, bytes);
    log_.close_split(folder, count, std::ssize(split.files), "repair or remove these files");
    source_.count = std::ssize(split.files);
    source_.labels = std::move(split.labels);
    if (!resident_)
      source_.read = [files = std::make_shared<const std::vector<fs::path>>(std::move(split.files)),
                      like = static_cast<const LabelledImages&>(ImageSource(source_)),
                      rotation = rotation_](std::int64_t number, std::span<std::uint8_t> planes) {
        read_image_planes((*files)[static_cast<std::size_t>(number)], like.width, planes);
        rotate(planes, like, rotation);
      };
    return std::move(source_);
  }

 private:
  void drop_broken(ImageFiles& split, const std::vector<std::string>& problems, std::size_t bytes) {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < problems.size(); ++i) {
      if (!problems[i].empty()) {
        log_.add(split.files[i].string(), -1, Defect::BrokenImage, problems[i]);
        continue;
      }
      if (kept < i) {
        split.files[kept] = std::move(split.files[i]);
        split.labels[kept] = split.labels[i];
        if (resident_)
          std::copy_n(source_.pixels.data() + i * bytes, bytes,
                      source_.pixels.data() + kept * bytes);
      }
      ++kept;
    }
    split.files.resize(kept);
    split.labels.resize(kept);
    if (resident_) source_.pixels.resize(kept * bytes);
  }

  double rotation_;
  bool resident_;
  DefectLog& log_;
  ImageSource source_;
};

/// The shorter side of the median of up to a thousand images, at most 224 pixels.
std::int64_t default_size(const std::vector<fs::path>& files) {
  constexpr std::size_t most = 1000;
  const std::size_t step = (files.size() + most - 1) / most;
  std::vector<std::int64_t> sides((files.size() + step - 1) / step);
  in_parallel(std::ssize(sides), [&](std::int64_t i) {
    const fs::path& file = files[static_cast<std::size_t>(i) * step];
    try {
      const ImageSize size = read_image_size(read_file(file, kMaxImageFileBytes), file.string());
      sides[static_cast<std::size_t>(i)] = std::min(size.width, size.height);
    } catch (const DataError&) {  // reported when it is decoded
    }
  });
  std::erase(sides, 0);
  if (sides.empty()) return kLargestDefaultSize;
  const auto middle = sides.begin() + std::ssize(sides) / 2;
  std::ranges::nth_element(sides, middle);
  return std::min(*middle, kLargestDefaultSize);
}

/// Broken images may have been all that a class had.
void check_every_class(const OwnData& data, const std::string& path) {
  std::vector<bool> seen(data.classes.size());
  for (const std::int32_t label : data.train.labels) seen[static_cast<std::size_t>(label)] = true;
  for (std::size_t i = 0; i < seen.size(); ++i)
    if (!seen[i])
      throw DataError(text(path, ": class '", data.classes[i], "' has no usable training image"));
}

OwnData read_image_folder(const DataOptions& options, DefectLog& log) {
  if (!can_decode_images()) throw DataError(text("[--data] ", no_image_decoder()));
  ImageFolder folder = scan_image_folder(options.name, log);
  OwnData data;
  data.notices = std::move(folder.notices);
  data.classes = std::move(folder.classes);
  if (folder.test.files.empty()) {
    const std::size_t all = folder.train.files.size();
    const std::vector<bool> held = held_out(folder.train.labels, data.classes.size());
    ImageFiles train;
    for (std::size_t i = 0; i < all; ++i) {
      ImageFiles& into = held[i] ? folder.test : train;
      into.files.push_back(std::move(folder.train.files[i]));
      into.labels.push_back(folder.train.labels[i]);
    }
    folder.train = std::move(train);
    data.notices.push_back(held_out_notice(options.name, folder.test.files.size(), all));
  }
  const std::int64_t size =
      options.image_size > 0 ? options.image_size : default_size(folder.train.files);
  if (options.image_size == 0)
    data.notices.push_back(text(options.name, ": images are resized to ", size, "x", size,
                                " pixels (the median, at most ", kLargestDefaultSize,
                                "); --image-size chooses another size"));
  const std::int64_t bytes = 3 * size * size * std::ssize(folder.train.files) +
                             3 * size * size * std::ssize(folder.test.files);
  const bool resident = bytes <= options.decoded_bytes;
  if (!resident)
    data.notices.push_back(text(options.name, ": ", byte_text(bytes),
                                " of decoded images, more than ", byte_text(options.decoded_bytes),
                                "; they are decoded while the network trains"));
  PixelSums sums(3);
  data.train = SplitReader(options, size, resident, log)
                   .read(options.name + ": training set", std::move(folder.train), &sums);
  data.test = SplitReader(options, size, resident, log)
                  .read(options.name + ": test set", std::move(folder.test), nullptr);
  check_every_class(data, options.name);
  data.statistics = sums.statistics();
  return data;
}

OwnData read_array_file(const DataOptions& options, DefectLog& log) {
  LabelledArrays arrays = read_labelled_arrays(options.name, log);
  OwnData data;
  data.notices = std::move(arrays.notices);
  for (std::int64_t i = 0; i < arrays.classes; ++i) data.classes.push_back(std::to_string(i));
  if (arrays.test.count == 0) {
    const auto all = static_cast<std::size_t>(arrays.train.count);
    const std::vector<bool> held = held_out(arrays.train.labels, data.classes.size());
    move_held_out(arrays.train, arrays.test, held);
    data.notices.push_back(held_out_notice(options.name, arrays.test.labels.size(), all));
  }
  const LabelledImages& train = arrays.train;
  if (train.height != train.width && options.image_size == 0)
    throw DataError(text(options.name, ": images of ", train.height, "x", train.width,
                         " pixels; networks take square ones, so choose a size with --image-size"));
  static_cast<LabelledImages&>(data.train) = std::move(arrays.train);
  static_cast<LabelledImages&>(data.test) = std::move(arrays.test);
  for (LabelledImages* set :
       {static_cast<LabelledImages*>(&data.train), static_cast<LabelledImages*>(&data.test)}) {
    if (options.rotation == 0) continue;
    ImageSet turned{.count = set->count,
                    .channels = set->channels,
                    .height = set->height,
                    .width = set->width,
                    .pixels = std::move(set->pixels)};
    rotate_images(turned, options.rotation);
    set->pixels = std::move(turned.pixels);
  }
  PixelSums sums(data.train.channels);
  const auto image =
      static_cast<std::size_t>(data.train.channels * data.train.height * data.train.width);
  for (std::size_t at = 0; at < data.train.pixels.size(); at += image)
    sums.add(std::span(data.train.pixels).subspan(at, image));
  data.statistics = sums.statistics();
  check_every_class(data, options.name);
  return data;
}

}  // namespace

bool is_own_data(std::string_view name) {
  const std::vector<std::string> known = all_data_names();
  return std::ranges::find(known, name) == known.end();
}

std::string data_title(const std::string& name) {
  if (!is_own_data(name)) return name;
  const fs::path path = fs::path(name).lexically_normal();
  const fs::path last = path.has_filename() ? path : path.parent_path();
  return is_array_file_name(name) ? last.stem().string() : last.filename().string();
}

void read_image_planes(const fs::path& file, std::int64_t size, std::span<std::uint8_t> planes) {
  const RgbImage image =
      decode_image(read_file(file, kMaxImageFileBytes), file.string(), {.shorter_side = size});
  resize_and_crop(image, size, planes);
}

OwnData read_own_data(const DataOptions& options) {
  DefectLog log(options.bad_data);
  std::error_code error;
  const fs::file_status status = fs::status(options.name, error);
  const bool folder = fs::is_directory(status);
  if (!fs::exists(status))
    throw UsageError(text("[--data] unknown data set '", options.name,
                          "', and no folder or file of that name",
                          suggestion(options.name, all_data_names())));
  if (!folder && !is_array_file_name(options.name))
    throw DataError(text("[--data] ", options.name,
                         ": not a folder of images by class, .npz or .safetensors file"));
  OwnData data = folder ? read_image_folder(options, log) : read_array_file(options, log);
  data.findings = log.take();
  const std::vector<std::string> dropped = finding_notices(data.findings);
  data.notices.insert(data.notices.begin(), dropped.begin(), dropped.end());
  return data;
}

}  // namespace triaccel
