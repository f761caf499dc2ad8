#include "triaccel/formats/idx.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "triaccel/formats/file_bytes.h"

namespace triaccel {
namespace {

namespace fs = std::filesystem;

std::int64_t big_endian_word(std::span<const std::byte> file, std::size_t at) {
  std::int64_t word = 0;
  for (std::size_t i = 0; i < 4; ++i)
    word = word << 8 | std::to_integer<std::int64_t>(file[at + i]);
  return word;
}

// The sizes declared by an idx header of unsigned bytes, or nothing after logging the defect.
std::optional<std::vector<std::int64_t>> parse_header(std::span<const std::byte> file,
                                                      std::string_view file_name,
                                                      std::size_t dimensions, DefectLog& log) {
  constexpr std::byte unsigned_byte{0x08};
  const std::size_t header = 4 + 4 * dimensions;
  if (file.size() < 4) {
    log.add(file_name, -1, Defect::TruncatedHeader,
            text(file.size(), " bytes, the header has ", header, "; download it again"));
    return std::nullopt;
  }
  if (file[0] != std::byte{0} || file[1] != std::byte{0}) {
    const bool gzip = file[0] == std::byte{0x1f} && file[1] == std::byte{0x8b};
    log.add(file_name, -1, Defect::WrongMagic,
            gzip ? "this is a gzip file; rename it to end in .gz"
                 : "not an idx file; download it again");
    return std::nullopt;
  }
  if (file[2] != unsigned_byte) {
    log.add(file_name, -1, Defect::WrongElementType,
            text("type code ", std::to_integer<int>(file[2]), ", expected 8 (unsigned byte)"));
    return std::nullopt;
  }
  if (std::to_integer<std::size_t>(file[3]) != dimensions) {
    log.add(file_name, -1, Defect::WrongDimensions,
            text(std::to_integer<int>(file[3]), " dimensions instead of ", dimensions,
                 "; are the image and label files swapped?"));
    return std::nullopt;
  }
  if (file.size() < header) {
    log.add(file_name, -1, Defect::TruncatedHeader,
            text(file.size(), " bytes, the header has ", header, "; download it again"));
    return std::nullopt;
  }
  std::vector<std::int64_t> sizes;
  for (std::size_t d = 0; d < dimensions; ++d) sizes.push_back(big_endian_word(file, 4 + 4 * d));
  return sizes;
}

// The number of complete records in so many bytes after the header; logs missing or excess data.
std::int64_t complete_records(std::int64_t bytes, std::string_view file_name, std::int64_t count,
                              std::int64_t record_bytes, DefectLog& log) {
  const std::int64_t there = std::min(count, bytes / record_bytes);
  const std::int64_t expected = count * record_bytes;
  if (bytes > expected)
    log.add(file_name, -1, Defect::TrailingBytes,
            text(bytes - expected, " bytes after the last of ", count, " records"));
  const bool cut = there < count && bytes % record_bytes != 0;
  if (cut)
    log.add(file_name, there, Defect::TruncatedRecord,
            text("the file ends after ", bytes % record_bytes, " of ", record_bytes, " bytes"));
  if (there + (cut ? 1 : 0) < count)
    log.add(file_name, there + (cut ? 1 : 0), Defect::MissingRecords,
            text("the header says ", count, " records; download the file again"));
  return there;
}

std::vector<std::byte> read_part(const fs::path& folder, const std::string& stem,
                                 const std::string& kind, std::uint64_t max_bytes,
                                 std::string& file_name, DefectLog& log) {
  const fs::path base = idx_base_name(folder, stem, kind);
  file_name = find_plain_or_gzip(base).value_or(base).string();
  try {
    return read_plain_or_gzip(base, max_bytes);
  } catch (const DefectError& error) {
    log.add(error.finding);
    return {};
  }
}

ImageSet read_split(const fs::path& folder, std::string_view name, const std::string& prefix,
                    DefectLog& log) {
  ImageSet set{.name = std::string(name),
               .channels = 1,
               .height = kIdxSide,
               .width = kIdxSide,
               .classes = kIdxClasses};
  std::string image_file, label_file;
  const std::vector<std::byte> image_bytes =
      read_part(folder, prefix + "-images", "idx3-ubyte", kMaxIdxImageBytes, image_file, log);
  const std::vector<std::byte> label_bytes =
      read_part(folder, prefix + "-labels", "idx1-ubyte", kMaxIdxLabelBytes, label_file, log);
  IdxImages images;
  IdxLabels labels;
  if (!image_bytes.empty()) images = parse_idx_images(image_bytes, image_file, log);
  if (!label_bytes.empty()) labels = parse_idx_labels(label_bytes, label_file, log);
  if (!images.pixels.empty() && (images.height != kIdxSide || images.width != kIdxSide)) {
    log.add(image_file, -1, Defect::WrongDimensions,
            text("images of ", images.height, "x", images.width, ", expected 28x28"));
    images.pixels = {};
  }
  if (!image_bytes.empty() && !label_bytes.empty() && images.count != labels.count)
    log.add(label_file, -1, Defect::CountMismatch,
            text(labels.count, " labels for ", images.count, " images; download both files again"));

  constexpr auto image_size = static_cast<std::size_t>(kIdxSide * kIdxSide);
  const std::size_t pairs = std::min(images.pixels.size() / image_size, labels.labels.size());
  set.pixels.reserve(pairs * image_size);
  set.labels.reserve(pairs);
  for (std::size_t i = 0; i < pairs; ++i) {
    const auto label = std::to_integer<std::uint8_t>(labels.labels[i]);
    if (label >= kIdxClasses) {
      log.add(label_file, static_cast<std::int64_t>(i), Defect::LabelOutOfRange,
              text(int{label}, ", the largest is ", kIdxClasses - 1));
      continue;
    }
    const auto* first = reinterpret_cast<const std::uint8_t*>(&images.pixels[i * image_size]);
    set.pixels.insert(set.pixels.end(), first, first + image_size);
    set.labels.push_back(label);
  }
  set.count = static_cast<std::int64_t>(set.labels.size());
  log.close_split(image_file, std::max(images.count, labels.count), set.count);
  check_classes(set.labels, kIdxClasses, label_file, log);
  return set;
}

}  // namespace

fs::path idx_base_name(const fs::path& folder, const std::string& stem, const std::string& kind) {
  const fs::path dashed = folder / (stem + "-" + kind), dotted = folder / (stem + "." + kind);
  return find_plain_or_gzip(dashed) || !find_plain_or_gzip(dotted) ? dashed : dotted;
}

IdxImages parse_idx_image_header(std::span<const std::byte> start, std::int64_t file_bytes,
                                 std::string_view file_name, DefectLog& log) {
  constexpr std::int64_t max_side = 4096;
  const auto sizes = parse_header(start, file_name, 3, log);
  if (!sizes) return {};
  const std::int64_t count = (*sizes)[0], height = (*sizes)[1], width = (*sizes)[2];
  if (height < 1 || width < 1 || height > max_side || width > max_side) {
    log.add(file_name, -1, Defect::WrongDimensions,
            text("images of ", height, "x", width, "; supported sizes are 1 to ", max_side));
    return {};
  }
  if (count > static_cast<std::int64_t>(kMaxIdxImageBytes) / (height * width)) {
    log.add(file_name, -1, Defect::CountTooLarge,
            text(count, " images of ", height, "x", width, " are more than ", kMaxIdxImageBytes,
                 " bytes; is it the right file?"));
    return {};
  }
  complete_records(file_bytes - kIdxImageHeader, file_name, count, height * width, log);
  return {.count = count, .height = height, .width = width};
}

IdxImages parse_idx_images(std::span<const std::byte> file, std::string_view file_name,
                           DefectLog& log) {
  const auto bytes = static_cast<std::int64_t>(file.size());
  IdxImages images = parse_idx_image_header(file, bytes, file_name, log);
  const std::int64_t record = images.height * images.width;
  if (record == 0) return images;
  const std::int64_t there = std::min(images.count, (bytes - kIdxImageHeader) / record);
  images.pixels = file.subspan(kIdxImageHeader, static_cast<std::size_t>(there * record));
  return images;
}

IdxLabels parse_idx_labels(std::span<const std::byte> file, std::string_view file_name,
                           DefectLog& log) {
  const auto sizes = parse_header(file, file_name, 1, log);
  if (!sizes) return {};
  const std::int64_t count = (*sizes)[0];
  if (count > static_cast<std::int64_t>(kMaxIdxLabelBytes)) {
    log.add(file_name, -1, Defect::CountTooLarge,
            text(count, " labels, more than the limit of ", kMaxIdxLabelBytes,
                 "; is it the right file?"));
    return {};
  }
  const std::span<const std::byte> payload = file.subspan(8);
  const std::int64_t there = complete_records(std::ssize(payload), file_name, count, 1, log);
  return {.count = count, .labels = payload.first(static_cast<std::size_t>(there))};
}

ImageSplits read_idx_set(const fs::path& folder, std::string_view name, BadDataRule rule) {
  DefectLog log(rule);
  ImageSplits splits;
  splits.train = read_split(folder, name, "train", log);
  splits.test = read_split(folder, name, "t10k", log);
  splits.findings = log.take();
  return splits;
}

}  // namespace triaccel
