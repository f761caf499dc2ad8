#include <vector>

#include "fuzz/fuzz_target.h"
#include "triaccel/formats/image_file.h"

using namespace triaccel;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto file = fuzz::bytes_of(data, size);
  fuzz::parse_or_refuse<DataError>([&] {
    const RgbImage image = decode_image(file, "f", {.shorter_side = 8, .max_pixels = 1 << 18});
    fuzz::promise(static_cast<std::int64_t>(image.pixels.size()) == 3 * image.width * image.height);
    std::vector<std::uint8_t> planes(3 * 8 * 8);
    resize_and_crop(image, 8, planes);
  });
  fuzz::parse_or_refuse<DataError>([&] { read_image_size(file, "f"); });
  return 0;
}
