#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "triaccel/formats/bad_data.h"
#include "triaccel/formats/image_set.h"

namespace triaccel {

/// CIFAR's binary format: records of label bytes and 3 x 32 x 32 pixels, plane by plane.
struct CifarLayout {
  std::string name = {};
  std::vector<std::string> train_files = {}, test_files = {};
  std::int64_t classes = 0;
  std::int64_t coarse_classes = 0;  // 0: no coarse label before the label
  // To detect truncation at a record boundary; 0: any number.
  std::int64_t records_per_train_file = 0, records_per_test_file = 0;
};

CifarLayout cifar10_layout();
CifarLayout cifar100_layout();

/// Appends the good records of one file to `set`, in order, and returns the number of records the
/// file should have. `expected_records` 0: as many as there are.
std::int64_t append_cifar_records(std::span<const std::byte> file, std::string_view file_name,
                                  const CifarLayout& layout, std::int64_t expected_records,
                                  ImageSet& set, DefectLog& log);

ImageSplits read_cifar(const std::filesystem::path& folder, const CifarLayout& layout,
                       BadDataRule rule = {});
ImageSplits read_cifar10(const std::filesystem::path& folder, BadDataRule rule = {});
ImageSplits read_cifar100(const std::filesystem::path& folder, BadDataRule rule = {});

}  // namespace triaccel
