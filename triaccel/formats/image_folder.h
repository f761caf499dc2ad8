#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "triaccel/formats/bad_data.h"

namespace triaccel {

/// Image files with their classes.
struct ImageFiles {
  std::vector<std::filesystem::path> files = {};
  std::vector<std::int32_t> labels = {};
};

/// A folder with one folder of images per class, as torchvision's ImageFolder takes it.
struct ImageFolder {
  std::vector<std::string> classes = {};  // names of the class folders, sorted
  ImageFiles train = {};                  // by class, then by name
  ImageFiles test = {};                   // empty: the folder has neither test nor val
  std::vector<std::string> notices = {};  // what was not used
};

/// Lists the PNG and JPEG files of a folder that has one folder per class, or train and, if there
/// is, test or val with one folder per class each. Folders in a class folder are searched too;
/// symbolic links are followed, and links in a circle are a defect. Opens no image. Throws
/// DataError naming the folder if a class has no image, if there is one class only, or if a test
/// class is not a training class.
ImageFolder scan_image_folder(const std::filesystem::path& folder, DefectLog& log);

/// The images of a folder and of the folders in it, sorted by path; for predictions.
std::vector<std::filesystem::path> images_below(const std::filesystem::path& folder,
                                                DefectLog& log);

}  // namespace triaccel
