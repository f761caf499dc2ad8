#include "triaccel/formats/image_folder.h"

#include <algorithm>
#include <array>
#include <map>
#include <system_error>
#include <utility>

#include "triaccel/formats/image_file.h"

namespace triaccel {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxDepth = 32;

/// Images by extension that are not decoded; they deserve a word.
constexpr std::array<std::string_view, 9> kOtherImages = {".webp", ".bmp", ".gif",  ".tif", ".tiff",
                                                          ".ppm",  ".pgm", ".heic", ".avif"};

class FolderScan {
 public:
  explicit FolderScan(DefectLog& log) : log_(log) {}

  /// Entries of a folder without hidden ones, sorted by name.
  std::vector<fs::path> entries(const fs::path& folder) const {
    std::error_code error;
    std::vector<fs::path> all;
    fs::directory_iterator it(folder, error);
    while (!error && it != fs::directory_iterator()) {
      if (!it->path().filename().native().starts_with('.')) all.push_back(it->path());
      it.increment(error);
    }
    if (error)
      throw DataError(
          text(folder.string(), ": cannot be read: ", error.message(), "; check its permissions"));
    std::ranges::sort(all);
    return all;
  }

  std::vector<fs::path> subfolders(const fs::path& folder) {
    std::vector<fs::path> found;
    for (fs::path& entry : entries(folder))
      if (type_of(entry) == fs::file_type::directory) found.push_back(std::move(entry));
    return found;
  }

  void add_images(const fs::path& folder, std::vector<fs::path>& found) {
    std::error_code error;
    const fs::path real = fs::canonical(folder, error);
    const bool circle = std::ranges::find(open_, real) != open_.end();
    if (error || circle || open_.size() == kMaxDepth) {
      log_.add(folder.string(), -1, Defect::SymlinkLoop,
               error    ? error.message()
               : circle ? text("leads back to ", real.string())
                        : text("more than ", kMaxDepth, " folders deep"));
      return;
    }
    open_.push_back(real);
    for (fs::path& entry : entries(folder)) {
      const fs::file_type type = type_of(entry);
      if (type == fs::file_type::directory)
        add_images(entry, found);
      else if (is_image_name(entry.filename().native()))
        found.push_back(std::move(entry));  // whether it can be read shows when it is decoded
      else if (std::ranges::find(kOtherImages, entry.extension().native()) != kOtherImages.end())
        ++others_[entry.extension().string()];
    }
    open_.pop_back();
  }

  std::vector<std::string> notices(const fs::path& folder) const {
    std::vector<std::string> all;
    for (const auto& [extension, count] : others_)
      all.push_back(text(folder.string(), ": ", count, " ", extension,
                         count == 1 ? " file" : " files", " not used; convert to PNG or JPEG"));
    return all;
  }

 private:
  fs::file_type type_of(const fs::path& entry) {
    std::error_code error;
    const fs::file_type type = fs::status(entry, error).type();
    if (error == std::errc::too_many_symbolic_link_levels)
      log_.add(entry.string(), -1, Defect::SymlinkLoop, error.message());
    return type;
  }

  DefectLog& log_;
  std::vector<fs::path> open_;  // the folders that lead to the present one, without links
  std::map<std::string, std::int64_t> others_;
};

bool is_held_out_name(const std::string& name) {
  return name == "test" || name == "val" || name == "valid" || name == "validation";
}

/// Whether train is a split, not a class (of vehicles, say).
bool has_splits(FolderScan& scan, const fs::path& folder) {
  bool train = false;
  for (const fs::path& below : scan.subfolders(folder)) {
    const std::string name = below.filename().string();
    if (name == "train")
      train = !scan.subfolders(below).empty();
    else if (!is_held_out_name(name))
      return false;
  }
  return train;
}

ImageFiles scan_classes(FolderScan& scan, const fs::path& folder,
                        const std::vector<std::string>& classes) {
  ImageFiles split;
  for (std::size_t label = 0; label < classes.size(); ++label) {
    std::error_code error;
    if (!fs::exists(folder / classes[label], error)) continue;
    const std::size_t before = split.files.size();
    scan.add_images(folder / classes[label], split.files);
    if (split.files.size() == before)
      throw DataError(text((folder / classes[label]).string(),
                           ": no PNG or JPEG file in this class folder; add images or remove it"));
    split.labels.resize(split.files.size(), static_cast<std::int32_t>(label));
  }
  return split;
}

std::vector<std::string> class_names(FolderScan& scan, const fs::path& folder) {
  std::vector<std::string> names;
  for (const fs::path& below : scan.subfolders(folder)) names.push_back(below.filename().string());
  return names;
}

}  // namespace

ImageFolder scan_image_folder(const fs::path& folder, DefectLog& log) {
  FolderScan scan(log);
  ImageFolder found;
  const bool splits = has_splits(scan, folder);
  const fs::path train = splits ? folder / "train" : folder;
  found.classes = class_names(scan, train);
  if (found.classes.size() < 2)
    throw DataError(text(train.string(), ": ",
                         found.classes.empty()
                             ? std::string("no class folders")
                             : text("one class only, '", found.classes.front(), "'"),
                         "; a data set is a folder with one folder of images per class"));
  found.train = scan_classes(scan, train, found.classes);
  if (splits) {
    fs::path test;
    for (const char* name : {"test", "val", "valid", "validation"}) {
      std::error_code error;
      if (!fs::is_directory(folder / name, error)) continue;
      if (test.empty())
        test = folder / name;
      else
        found.notices.push_back(text((folder / name).string(), ": not used; ",
                                     test.filename().string(), " is the test set"));
    }
    if (!test.empty()) {
      for (const std::string& name : class_names(scan, test))
        if (!std::ranges::binary_search(found.classes, name))
          throw DataError(
              text((test / name).string(), ": no training class of this name in ", train.string()));
      found.test = scan_classes(scan, test, found.classes);
      if (found.test.files.empty())
        throw DataError(text(test.string(), ": no class folders with images"));
    }
  }
  for (std::string& notice : scan.notices(folder)) found.notices.push_back(std::move(notice));
  return found;
}

std::vector<fs::path> images_below(const fs::path& folder, DefectLog& log) {
  FolderScan scan(log);
  std::vector<fs::path> files;
  scan.add_images(folder, files);
  std::ranges::sort(files);
  return files;
}

}  // namespace triaccel
