#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

#include "triaccel/formats/bad_data.h"

namespace triaccel {

/// Reads every record of data set `name` (see data_set_names) in `folder` and lists every defect;
/// an empty list means the set is as its publisher made it. Throws UsageError for an unknown name.
std::vector<Finding> scan_data_set(std::string_view name, const std::filesystem::path& folder);

}  // namespace triaccel
