#include "triaccel/formats/point_cloud.h"

#include <algorithm>

#include "triaccel/formats/file_bytes.h"

namespace triaccel {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxClasses = 256;
constexpr std::size_t kCloudBytes = 2 * kCloudValues;

std::vector<std::byte> read_part(const fs::path& file, std::uint64_t max_bytes, DefectLog& log) {
  try {
    return read_file(file, max_bytes);
  } catch (const DefectError& error) {
    log.add(error.finding);
    return {};
  }
}

bool is_printable(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, [](char c) { return c > ' ' && c < 0x7f; });
}

bool one_point_only(std::span<const std::uint16_t> cloud) {
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const auto values = cloud.subspan(axis * kPointsPerCloud, kPointsPerCloud);
    if (std::ranges::any_of(values, [&](std::uint16_t q) { return q != values[0]; })) return false;
  }
  return true;
}

}  // namespace

bool parse_cloud(std::span<const std::byte> bytes, std::string_view file, std::int64_t record,
                 std::span<std::uint16_t> coordinates, DefectLog& log) {
  for (std::size_t v = 0; v < kCloudValues; ++v)
    coordinates[v] = static_cast<std::uint16_t>(std::to_integer<unsigned>(bytes[2 * v]) |
                                                std::to_integer<unsigned>(bytes[2 * v + 1]) << 8);
  const std::uint16_t largest = *std::ranges::max_element(coordinates);
  if (largest > kLargestCoordinate)
    log.add(file, record, Defect::CoordinateOutOfRange,
            text(largest, ", the largest is ", kLargestCoordinate));
  else if (one_point_only(coordinates))
    log.add(file, record, Defect::DegenerateShape, "");
  else
    return true;
  return false;
}

std::vector<std::string> parse_class_names(std::span<const std::byte> file,
                                           std::string_view file_name, DefectLog& log) {
  std::string_view rest(reinterpret_cast<const char*>(file.data()), file.size());
  std::vector<std::string> names;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view name = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (name.ends_with('\r')) name.remove_suffix(1);
    const auto line = static_cast<std::int64_t>(names.size());
    if (names.size() == kMaxClasses) {
      log.add(file_name, -1, Defect::CountTooLarge,
              text("more than ", kMaxClasses, " class names; is it the right file?"));
      break;
    }
    if (!is_printable(name))
      log.add(file_name, line, Defect::BadClassName, "empty, or not printable ASCII");
    else if (std::ranges::find(names, name) != names.end())
      log.add(file_name, line, Defect::BadClassName, text("'", name, "' appears twice"));
    names.emplace_back(name);
  }
  return names;
}

PointSet parse_point_set(std::span<const std::byte> coordinates, std::string_view coordinate_file,
                         std::span<const std::byte> labels, std::string_view label_file,
                         const std::vector<std::string>& class_names, DefectLog& log) {
  PointSet set{.name = "modelnet40",
               .classes = static_cast<std::int64_t>(class_names.size()),
               .class_names = class_names};
  const std::size_t there = coordinates.size() / kCloudBytes;
  const std::size_t rest = coordinates.size() % kCloudBytes;
  const std::size_t begun = there + (rest > 0 ? 1 : 0);
  if (rest > 0)
    log.add(coordinate_file, static_cast<std::int64_t>(there), Defect::TruncatedRecord,
            text("the file ends after ", rest, " of ", kCloudBytes, " bytes; download it again"));
  if (begun != labels.size())
    log.add(label_file, -1, Defect::CountMismatch,
            text(labels.size(), " labels for ", begun, " clouds; download both files again"));

  const std::size_t pairs = std::min(there, labels.size());
  set.coordinates.reserve(pairs * kCloudValues);
  set.labels.reserve(pairs);
  for (std::size_t i = 0; i < pairs; ++i) {
    const auto record = static_cast<std::int64_t>(i);
    const auto label = std::to_integer<std::uint8_t>(labels[i]);
    if (label >= class_names.size())
      log.add(label_file, record, Defect::LabelOutOfRange,
              text(int{label}, ", there are ", class_names.size(), " class names"));
    else if (set.coordinates.resize(set.labels.size() * kCloudValues + kCloudValues);
             parse_cloud(coordinates.subspan(i * kCloudBytes, kCloudBytes), coordinate_file, record,
                         std::span(set.coordinates).last(kCloudValues), log))
      set.labels.push_back(label);
  }
  set.coordinates.resize(set.labels.size() * kCloudValues);
  set.count = static_cast<std::int64_t>(set.labels.size());
  log.close_split(coordinate_file, static_cast<std::int64_t>(std::max(begun, labels.size())),
                  set.count);
  check_classes(set.labels, set.classes, label_file, log);
  return set;
}

PointSplits read_point_clouds(const fs::path& folder, BadDataRule rule) {
  DefectLog log(rule);
  const fs::path name_file = folder / "shape_names.txt";
  const std::vector<std::string> names =
      parse_class_names(read_part(name_file, kMaxNameFileBytes, log), name_file.string(), log);
  const auto read_split = [&](const std::string& split) {
    const fs::path coordinates = folder / (split + "_1024_q10.u16");
    const fs::path labels = folder / (split + "_labels.u8");
    return parse_point_set(read_part(coordinates, kMaxCoordinateBytes, log), coordinates.string(),
                           read_part(labels, kMaxPointLabelBytes, log), labels.string(), names,
                           log);
  };
  PointSplits splits;
  splits.train = read_split("train");
  splits.test = read_split("test");
  splits.findings = log.take();
  return splits;
}

}  // namespace triaccel
