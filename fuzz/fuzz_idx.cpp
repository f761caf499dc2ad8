#include "fuzz/fuzz_target.h"
#include "triaccel/formats/idx.h"

using namespace triaccel;

namespace {

void parse_both(std::span<const std::byte> file, BadData mode) {
  DefectLog log(mode);
  const IdxImages images = parse_idx_images(file, "f", log);
  if (!images.pixels.empty())
    fuzz::promise(images.pixels.size() % static_cast<std::size_t>(images.height * images.width) ==
                  0);
  const IdxLabels labels = parse_idx_labels(file, "f", log);
  fuzz::promise(static_cast<std::int64_t>(labels.labels.size()) <= labels.count);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto file = fuzz::bytes_of(data, size);
  fuzz::parse_or_refuse<DataError>([&] { parse_both(file, BadData::Fail); });
  fuzz::parse_or_refuse<DataError>([&] { parse_both(file, BadData::Skip); });
  parse_both(file, BadData::Report);
  return 0;
}
