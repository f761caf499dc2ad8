#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "triaccel/formats/bad_data.h"

namespace triaccel {

inline constexpr std::int64_t kPointsPerCloud = 1024;
inline constexpr std::uint16_t kLargestCoordinate = 1023;

/// Labelled point clouds inside the unit sphere, ten bits per coordinate: x = q * 2 / 1023 - 1.
/// Points are in Morton order: take random subsets, never the first k.
struct PointSet {
  std::string name = {};
  std::int64_t count = 0, points = kPointsPerCloud, classes = 0;
  std::vector<std::uint16_t> coordinates = {};  // [count][3][points]
  std::vector<std::uint8_t> labels = {};        // [count], each below `classes`
  std::vector<std::string> class_names = {};    // [classes]
};

struct PointSplits {
  PointSet train = {}, test = {};
  std::vector<Finding> findings = {};  // dropped by BadData::Skip or found by BadData::Report
};

/// One name per line; at most 256.
std::vector<std::string> parse_class_names(std::span<const std::byte> file,
                                           std::string_view file_name, DefectLog& log);

/// One cloud of a coordinate file, `record` of it, as [3][kPointsPerCloud]; false after logging a
/// defect.
inline constexpr std::size_t kCloudValues = 3 * static_cast<std::size_t>(kPointsPerCloud);
bool parse_cloud(std::span<const std::byte> bytes, std::string_view file, std::int64_t record,
                 std::span<std::uint16_t> coordinates, DefectLog& log);

/// {train,test}_1024_q10.u16 has 58 MiB for ModelNet40.
inline constexpr std::uint64_t kMaxCoordinateBytes = std::uint64_t{64} << 20;
inline constexpr std::uint64_t kMaxPointLabelBytes = std::uint64_t{1} << 20;
inline constexpr std::uint64_t kMaxNameFileBytes = std::uint64_t{64} << 10;

/// One split from its coordinate file (little-endian) and its label file.
PointSet parse_point_set(std::span<const std::byte> coordinates, std::string_view coordinate_file,
                         std::span<const std::byte> labels, std::string_view label_file,
                         const std::vector<std::string>& class_names, DefectLog& log);

/// {train,test}_1024_q10.u16, {train,test}_labels.u8 and shape_names.txt in `folder`.
PointSplits read_point_clouds(const std::filesystem::path& folder, BadDataRule rule = {});

}  // namespace triaccel
