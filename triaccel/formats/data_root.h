#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace triaccel {

/// The sets read from files: fashion-mnist, mnist, cifar10, cifar100, modelnet40, text.
std::span<const std::string> data_set_names();

/// The folder that holds data set `name`: `root` itself, or a folder below it with one of the set's
/// official names (cifar-10-batches-bin, MNIST/raw, ...). An empty root means the places Debian
/// packages use. Throws DataError with every place looked at and where the set can be had;
/// UsageError for an unknown name.
std::filesystem::path find_data_folder(std::string_view name, const std::filesystem::path& root);

}  // namespace triaccel
