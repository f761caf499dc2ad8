#include "fuzz/fuzz_target.h"
#include "triaccel/formats/cifar.h"

using namespace triaccel;

namespace {

void parse(std::span<const std::byte> file, const CifarLayout& layout, std::int64_t expected,
           BadData mode) {
  ImageSet set;
  DefectLog log(mode);
  const std::int64_t records = append_cifar_records(file, "f", layout, expected, set, log);
  log.close_split("f", records, set.count);
  fuzz::promise(set.count <= records);
  fuzz::promise(set.pixels.size() == static_cast<std::size_t>(set.count) * 3072);
  for (const std::uint8_t label : set.labels) fuzz::promise(label < layout.classes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const CifarLayout layouts[] = {cifar10_layout(), cifar100_layout()};
  const auto file = fuzz::bytes_of(data, size);
  for (const CifarLayout& layout : layouts) {
    for (const std::int64_t expected : {0, 2}) {
      fuzz::parse_or_refuse<DataError>([&] { parse(file, layout, expected, BadData::Fail); });
      fuzz::parse_or_refuse<DataError>([&] { parse(file, layout, expected, BadData::Skip); });
      parse(file, layout, expected, BadData::Report);
    }
  }
  return 0;
}
