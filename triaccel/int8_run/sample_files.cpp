#include "triaccel/int8_run/sample_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "triaccel/base/error.h"
#include "triaccel/formats/data_root.h"
#include "triaccel/formats/file_bytes.h"
#include "triaccel/formats/idx.h"
#include "triaccel/formats/point_cloud.h"
#include "triaccel/int8/training/state.h"

namespace triaccel {
namespace {

namespace fs = std::filesystem;

/// A compressed file cannot be read from the middle.
void require_plain(const fs::path& file) {
  const fs::path found = find_plain_or_gzip(file).value_or(file);
  if (found == file) return;
  throw DefectError({.file = found.string(),
                     .defect = Defect::Unreadable,
                     .detail = text("samples are read from the middle of the file; unpack it with "
                                    "'gunzip -k ",
                                    found.string(), "'")});
}

std::vector<std::uint8_t> label_bytes(std::span<const std::byte> bytes, std::int64_t classes,
                                      const std::string& file, DefectLog& log) {
  std::vector<std::uint8_t> labels(bytes.size());
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    labels[i] = std::to_integer<std::uint8_t>(bytes[i]);
    if (labels[i] >= classes)
      log.add(file, static_cast<std::int64_t>(i), Defect::LabelOutOfRange,
              text(int{labels[i]}, ", the largest is ", classes - 1));
  }
  check_classes(labels, classes, file, log);
  return labels;
}

void require_same_count(std::int64_t samples, std::int64_t labels, const std::string& label_file,
                        DefectLog& log) {
  if (samples != labels)
    log.add(label_file, -1, Defect::CountMismatch,
            text(labels, " labels for ", samples, " samples; download both files again"));
}

std::shared_ptr<const SampleFile> open_images(const fs::path& folder, const std::string& prefix) {
  DefectLog log;
  auto split = std::make_shared<SampleFile>();
  split->file = std::make_shared<const RandomAccessFile>(
      idx_base_name(folder, prefix + "-images", "idx3-ubyte"), kMaxIdxImageBytes);
  const RandomAccessFile& file = *split->file;
  std::array<std::byte, kIdxImageHeader> header = {};
  const auto start =
      std::span(header).first(static_cast<std::size_t>(std::min(kIdxImageHeader, file.size())));
  file.read(0, start);
  const IdxImages images = parse_idx_image_header(start, file.size(), file.name(), log);
  if (images.height != kIdxSide || images.width != kIdxSide)
    log.add(file.name(), -1, Defect::WrongDimensions,
            text("images of ", images.height, "x", images.width, ", expected 28x28"));
  const fs::path label_file = idx_base_name(folder, prefix + "-labels", "idx1-ubyte");
  require_plain(label_file);
  const std::vector<std::byte> bytes = read_file(label_file, kMaxIdxLabelBytes);
  const IdxLabels labels = parse_idx_labels(bytes, label_file.string(), log);
  require_same_count(images.count, labels.count, label_file.string(), log);
  split->labels = label_bytes(labels.labels, kIdxClasses, label_file.string(), log);
  constexpr std::int64_t pixels = kIdxSide * kIdxSide;
  split->reader = {.inputs = pixels,
                   .exponent = int8::kPixelExponent,
                   .read = [from = split.get()](std::int64_t id, std::int8_t* mantissas) {
                     std::array<std::uint8_t, pixels> image;
                     from->file->read(kIdxImageHeader + id * pixels,
                                      std::as_writable_bytes(std::span(image)));
                     int8::quantise_pixels(image, mantissas);
                     return std::int32_t{from->labels[static_cast<std::size_t>(id)]};
                   }};
  return split;
}

/// Reads a cloud into `coordinates`; throws DataError for a bad one.
void read_cloud(const RandomAccessFile& file, std::int64_t id,
                std::span<std::uint16_t> coordinates) {
  constexpr std::int64_t kBytes = 2 * kCloudValues;
  std::array<std::byte, kBytes> bytes;
  file.read(id * kBytes, bytes);
  DefectLog log;
  parse_cloud(bytes, file.name(), id, coordinates, log);
}

std::shared_ptr<const SampleFile> open_clouds(const fs::path& folder, const std::string& prefix,
                                              std::int64_t classes) {
  DefectLog log;
  auto split = std::make_shared<SampleFile>();
  split->file = std::make_shared<const RandomAccessFile>(folder / (prefix + "_1024_q10.u16"),
                                                         kMaxCoordinateBytes);
  const std::string label_file = (folder / (prefix + "_labels.u8")).string();
  split->labels = label_bytes(read_file(label_file, kMaxPointLabelBytes), classes, label_file, log);
  constexpr auto cloud_bytes = static_cast<std::int64_t>(2 * kCloudValues);
  const std::int64_t count = split->file->size() / cloud_bytes;
  if (split->file->size() % cloud_bytes != 0)
    log.add(split->file->name(), count, Defect::TruncatedRecord,
            text("the file ends after ", split->file->size() % cloud_bytes, " of ", cloud_bytes,
                 " bytes; download it again"));
  require_same_count(count, split->count(), label_file, log);
  std::array<std::uint16_t, kCloudValues> coordinates;
  for (std::int64_t id = 0; id < count; ++id) read_cloud(*split->file, id, coordinates);
  split->reader = {.inputs = static_cast<std::int64_t>(kCloudValues),
                   .read = [from = split.get()](std::int64_t id, std::int8_t* mantissas) {
                     std::array<std::uint16_t, kCloudValues> cloud;
                     read_cloud(*from->file, id, cloud);
                     quantise_cloud(cloud, mantissas);
                     return std::int32_t{from->labels[static_cast<std::size_t>(id)]};
                   }};
  return split;
}

}  // namespace

RandomAccessFile::RandomAccessFile(const fs::path& path, std::uint64_t max_bytes)
    : name_(path.string()) {
  require_plain(path);
  size_ = checked_file_size(path, max_bytes);
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0)
    throw DefectError({.file = name_,
                       .defect = Defect::Unreadable,
                       .detail = "cannot be opened; check its permissions"});
}

RandomAccessFile::~RandomAccessFile() { ::close(descriptor_); }

void RandomAccessFile::read(std::int64_t offset, std::span<std::byte> to) const {
  const bool there = offset + std::ssize(to) <= size_;
  while (there && !to.empty()) {
    const ssize_t count = ::pread(descriptor_, to.data(), to.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    to = to.subspan(static_cast<std::size_t>(count));
    offset += count;
  }
  if (!to.empty())
    throw DefectError({.file = name_,
                       .defect = Defect::Unreadable,
                       .detail = text("cannot read ", to.size(), " bytes at byte ", offset,
                                      "; is the file being written?")});
}

SampleFiles open_sample_files(const std::string& name, const fs::path& root) {
  require(name == "mnist" || name == "fashion-mnist" || name == "modelnet40", "--data",
          "unknown data set '", name, "'; known: mnist, fashion-mnist, modelnet40");
  const fs::path folder = find_data_folder(name, root);
  if (name != "modelnet40")
    return {.train = open_images(folder, "train"),
            .test = open_images(folder, "t10k"),
            .shape = {.channels = 1, .image_size = kIdxSide, .classes = kIdxClasses}};
  DefectLog log;
  const fs::path names = folder / "shape_names.txt";
  const std::int64_t classes =
      std::ssize(parse_class_names(read_file(names, kMaxNameFileBytes), names.string(), log));
  return {.train = open_clouds(folder, "train", classes),
          .test = open_clouds(folder, "test", classes),
          .shape = {.channels = 3, .points = kPointsPerCloud, .classes = classes}};
}

}  // namespace triaccel
