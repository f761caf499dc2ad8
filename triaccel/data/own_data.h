#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "triaccel/data/data_files.h"
#include "triaccel/data/image_data.h"
#include "triaccel/formats/labelled_arrays.h"

namespace triaccel {

/// Whether --data names the user's own files: a path, not a data set of all_data_names().
bool is_own_data(std::string_view name);

/// A built-in name, or the last part of a path without ".npz" and the like.
std::string data_title(const std::string& name);

/// Images of the user's own, their classes, and how training pixels are distributed.
struct OwnData {
  ImageSource train = {}, test = {};
  PixelStatistics statistics = {};
  std::vector<std::string> classes = {};
  std::vector<std::string> notices = {};  // dropped images, held-out samples, conversions
  std::vector<Finding> findings = {};     // the dropped images
};

/// Reads a folder of images by class, or an .npz or .safetensors file. Every image is decoded once,
/// by several threads, to find what is broken and to measure mean and standard deviation. If all of
/// them fit in options.decoded_bytes the pixels are kept; otherwise the sources read them again,
/// one by one. Without a test set of its own, a tenth of each class is held out: always the same
/// samples of the same files. Throws DataError naming the file.
OwnData read_own_data(const DataOptions& options);

/// One image file as three planes of size x size pixels, as the folders' images are read.
void read_image_planes(const std::filesystem::path& file, std::int64_t size,
                       std::span<std::uint8_t> planes);

}  // namespace triaccel
