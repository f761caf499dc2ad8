#include "triaccel/checkpoint/generations.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>

#include "triaccel/base/error.h"

namespace triaccel {
namespace {

constexpr std::string_view kPrefix = "step-";
constexpr std::string_view kReplaced = ".old";
constexpr std::string_view kLeftover = ".tmp";

/// "step-120" and "step-120.old"; anything else is not a checkpoint.
std::optional<Generation> generation_at(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  std::string_view rest = name;
  if (!rest.starts_with(kPrefix)) return std::nullopt;
  rest.remove_prefix(kPrefix.size());
  Generation generation{.replaced = rest.ends_with(kReplaced), .path = path};
  if (generation.replaced) rest.remove_suffix(kReplaced.size());
  const auto [end, code] = std::from_chars(rest.data(), rest.data() + rest.size(), generation.step);
  if (code != std::errc{} || end != rest.data() + rest.size()) return std::nullopt;
  if (std::to_string(generation.step) != rest || generation.step < 0) return std::nullopt;
  return generation;
}

std::vector<std::filesystem::path> paths_in(const std::filesystem::path& directory) {
  std::vector<std::filesystem::path> paths;
  std::error_code code;
  std::filesystem::directory_iterator entry(directory, code);
  if (code == std::errc::no_such_file_or_directory) return paths;
  for (; !code && entry != std::filesystem::directory_iterator(); entry.increment(code))
    paths.push_back(entry->path());
  if (code)
    throw StorageError(text(directory.string(), ": cannot list the checkpoints: ", code.message()));
  return paths;
}

std::filesystem::path with_suffix(std::filesystem::path path, std::string_view suffix) {
  path += suffix;
  return path;
}

/// "step-120.tmp", "step-120.old.tmp", "step-120.1.tmp".
bool has_leftover_name(std::filesystem::path path) {
  if (path.extension() != kLeftover) return false;
  path.replace_extension();
  if (generation_at(path)) return true;
  const std::string number = path.extension().string();
  const bool numbered =
      number.size() > 1 && number.find_first_not_of("0123456789", 1) == std::string::npos;
  return numbered && generation_at(path.replace_extension());
}

/// Whether `path` is a directory that holds nothing but files of these names.
bool holds_only(const std::filesystem::path& path, const std::set<std::string>& files) {
  std::error_code code;
  if (!std::filesystem::is_directory(std::filesystem::symlink_status(path, code))) return false;
  std::filesystem::directory_iterator entry(path, code);
  for (; !code && entry != std::filesystem::directory_iterator(); entry.increment(code))
    if (!entry->is_regular_file(code) || !files.contains(entry->path().filename().string()))
      return false;
  return !code;
}

}  // namespace

std::filesystem::path generation_path(const std::filesystem::path& directory, std::int64_t step) {
  return directory / text(kPrefix, step);
}

std::filesystem::path replaced_path(const std::filesystem::path& path) {
  return with_suffix(path, kReplaced);
}

std::filesystem::path leftover_path(const std::filesystem::path& path) {
  std::filesystem::path name = with_suffix(path, kLeftover);
  std::error_code ignored;
  for (int i = 1; std::filesystem::exists(std::filesystem::symlink_status(name, ignored)); ++i)
    name = with_suffix(path, text(".", i, kLeftover));
  return name;
}

std::vector<Generation> list_generations(const std::filesystem::path& directory) {
  std::vector<Generation> generations;
  for (const std::filesystem::path& path : paths_in(directory))
    if (auto generation = generation_at(path)) generations.push_back(std::move(*generation));
  std::sort(generations.begin(), generations.end(), [](const Generation& a, const Generation& b) {
    return a.step != b.step ? a.step > b.step : a.replaced < b.replaced;
  });
  return generations;
}

std::vector<std::filesystem::path> list_leftovers(const std::filesystem::path& directory,
                                                  const std::set<std::string>& files) {
  std::vector<std::filesystem::path> leftovers;
  for (const std::filesystem::path& path : paths_in(directory))
    if (has_leftover_name(path) && holds_only(path, files)) leftovers.push_back(path);
  return leftovers;
}

}  // namespace triaccel
