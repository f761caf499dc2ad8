#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "triaccel/formats/bad_data.h"

namespace triaccel {

/// The data sets read from files: fashion-mnist, mnist, cifar10, cifar100, modelnet40, text.
std::span<const std::string> data_set_names();

/// The folder of data set `name`: `root` itself, or a folder below it with one of the set's usual
/// names (cifar-10-batches-bin, MNIST/raw, ...). An empty root means the folders of Debian
/// packages. Throws DataError with the folders searched and where to download the set; UsageError
/// for an unknown name.
std::filesystem::path find_data_folder(std::string_view name, const std::filesystem::path& root);

/// Reads every record of data set `name` (see data_set_names) in `folder` and lists every defect;
/// an empty list means the set is intact. Throws UsageError for an unknown name.
std::vector<Finding> scan_data_set(std::string_view name, const std::filesystem::path& folder);

}  // namespace triaccel
