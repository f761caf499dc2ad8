#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "triaccel/core/state_view.h"
#include "triaccel/formats/bad_data.h"

namespace triaccel {

/// Images of one size with labels below `classes`, of any number of classes.
struct LabelledImages {
  std::int64_t count = 0, channels = 0, height = 0, width = 0;
  std::vector<std::uint8_t> pixels = {};  // [count][channels][height][width]
  std::vector<std::int32_t> labels = {};  // [count]
};

struct LabelledArrays {
  LabelledImages train = {}, test = {};  // test without images: the file has no x_test
  std::int64_t classes = 0;
  std::vector<std::string> notices = {};  // how values were converted
};

/// Whether a name ends in .npz or .safetensors.
bool is_array_file_name(std::string_view name);

/// Images from arrays x and y and, if there are, x_test and y_test. Images are [N, C, H, W],
/// [N, H, W, C] or [N, H, W] of type uint8, or floats, which are mapped to 8 bits: [0, 1] by a
/// factor of 255, [0, 255] rounded, anything else from the range of x. Labels are integers from 0,
/// [N] or [N, 1], and every class has a sample in y. Throws DataError naming file and array.
LabelledArrays labelled_arrays(std::span<const StateView> arrays, std::string_view file_name,
                               DefectLog& log);

/// Reads an .npz or .safetensors file.
LabelledArrays read_labelled_arrays(const std::filesystem::path& file, DefectLog& log);

}  // namespace triaccel
