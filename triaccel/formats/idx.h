#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
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

/// The sizes in an idx3-ubyte header, for images that are read later: `start` holds the first bytes
/// of a file of `file_bytes`.
IdxImages parse_idx_image_header(std::span<const std::byte> start, std::int64_t file_bytes,
                                 std::string_view file_name, DefectLog& log);

inline constexpr std::int64_t kIdxImageHeader = 16;  // bytes
inline constexpr std::int64_t kIdxSide = 28;         // of an image of these sets
inline constexpr std::int64_t kIdxClasses = 10;
inline constexpr std::uint64_t kMaxIdxImageBytes = std::uint64_t{48} << 20;  // MNIST has 44.9 MiB
inline constexpr std::uint64_t kMaxIdxLabelBytes = std::uint64_t{1} << 20;

/// `folder`/`stem`-`kind`, or with a dot before "idx" where only that exists; either may end in
/// .gz.
std::filesystem::path idx_base_name(const std::filesystem::path& folder, const std::string& stem,
                                    const std::string& kind);

/// MNIST and compatible sets: four idx files in `folder`, plain or gzipped, with '-' or '.' before
/// "idx"; 28x28, ten classes. `name` is stored in the sets.
ImageSplits read_idx_set(const std::filesystem::path& folder, std::string_view name,
                         BadDataRule rule = {});

}  // namespace triaccel
