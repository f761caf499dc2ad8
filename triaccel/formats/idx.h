#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

#include "triaccel/formats/bad_data.h"
#include "triaccel/formats/image_set.h"

namespace triaccel {

/// A view into an idx3-ubyte file. `count` is declared by the header; `pixels` holds the complete
/// images, fewer if the file is truncated.
struct IdxImages {
  std::int64_t count = 0, height = 0, width = 0;
  std::span<const std::byte> pixels = {};
};

/// A view into an idx1-ubyte file, likewise.
struct IdxLabels {
  std::int64_t count = 0;
  std::span<const std::byte> labels = {};
};

IdxImages parse_idx_images(std::span<const std::byte> file, std::string_view file_name,
                           DefectLog& log);
IdxLabels parse_idx_labels(std::span<const std::byte> file, std::string_view file_name,
                           DefectLog& log);

/// MNIST and compatible sets: four idx files in `folder`, plain or gzipped, with '-' or '.' before
/// "idx"; 28x28, ten classes. `name` is stored in the sets.
ImageSplits read_idx_set(const std::filesystem::path& folder, std::string_view name,
                         BadDataRule rule = {});

}  // namespace triaccel
