#include "fuzz/fuzz_target.h"
#include "triaccel/formats/labelled_arrays.h"
#include "triaccel/formats/npz.h"

using namespace triaccel;

namespace {

void check(const StateView& array) {
  std::int64_t bytes = size_of(array.type);
  for (const std::int64_t size : array.shape) bytes *= size;
  fuzz::promise(bytes == static_cast<std::int64_t>(array.bytes.size()));
}

}  // namespace

/// The first byte chooses: an archive with all that follows from it, or a single array, which needs
/// no checksum to be read.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto file = fuzz::bytes_of(data + 1, size - 1);
  if (data[0] % 2 == 0) {
    fuzz::parse_or_refuse<DataError>([&] { check(parse_npy(file, "f")); });
    return 0;
  }
  fuzz::parse_or_refuse<DataError>([&] {
    const std::vector<StateView> arrays = parse_npz(file, "f");
    for (const StateView& array : arrays) check(array);
    DefectLog log(BadData::Report);
    const LabelledArrays images = labelled_arrays(arrays, "f", log);
    fuzz::promise(images.train.count == static_cast<std::int64_t>(images.train.labels.size()));
  });
  return 0;
}
