#include "fuzz/fuzz_target.h"
#include "triaccel/formats/point_cloud.h"

using namespace triaccel;

namespace {

// One input contains three files: one byte each for the length of names and labels, then names,
// labels and coordinates.
void parse(std::span<const std::byte> input, BadData mode) {
  if (input.size() < 2) return;
  const auto name_bytes = std::to_integer<std::size_t>(input[0]);
  const auto label_bytes = std::to_integer<std::size_t>(input[1]);
  input = input.subspan(2);
  if (input.size() < name_bytes + label_bytes) return;
  DefectLog log(mode);
  const std::vector<std::string> names = parse_class_names(input.first(name_bytes), "n", log);
  fuzz::promise(names.size() <= 256);
  const PointSet set = parse_point_set(input.subspan(name_bytes + label_bytes), "c",
                                       input.subspan(name_bytes, label_bytes), "l", names, log);
  fuzz::promise(set.coordinates.size() == static_cast<std::size_t>(set.count) * 3 * 1024);
  for (const std::uint16_t q : set.coordinates) fuzz::promise(q <= kLargestCoordinate);
  for (const std::uint8_t label : set.labels) fuzz::promise(label < set.classes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto input = fuzz::bytes_of(data, size);
  fuzz::parse_or_refuse<DataError>([&] { parse(input, BadData::Fail); });
  fuzz::parse_or_refuse<DataError>([&] { parse(input, BadData::Skip); });
  parse(input, BadData::Report);
  return 0;
}
