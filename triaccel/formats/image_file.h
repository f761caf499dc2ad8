#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace triaccel {

/// An image as RGB bytes, [height][width][3].
struct RgbImage {
  std::int64_t width = 0, height = 0;
  std::vector<std::uint8_t> pixels = {};
};

struct ImageSize {
  std::int64_t width = 0, height = 0;  // as shown, after its orientation is applied
};

struct DecodeOptions {
  /// For a JPEG at least four times as large: decode at half, a quarter or an eighth of its size,
  /// the smallest whose shorter side is at least twice this. 0: at its own size.
  std::int64_t shorter_side = 0;
  std::int64_t max_pixels = 100'000'000;  // refused before anything is allocated
};

/// Whether this build has libpng and libjpeg; without them every decode throws DataError.
bool can_decode_images();

/// "this program was built without libpng and libjpeg, …": what to tell the user, and what to do.
std::string_view no_image_decoder();

/// Whether a name ends in .png, .jpg or .jpeg, in any case.
bool is_image_name(std::string_view name);

/// Decodes a PNG or JPEG, whichever its first bytes say: grey, palette and 16-bit PNG, grey and
/// CMYK JPEG become 8-bit RGB; alpha is dropped, as torchvision does; the EXIF orientation of a
/// JPEG is applied. Throws DefectError with Defect::BrokenImage, also for truncated data and for
/// malicious input.
RgbImage decode_image(std::span<const std::byte> file, std::string_view file_name,
                      const DecodeOptions& options = {});

/// Width and height from the header alone. Throws as decode_image.
ImageSize read_image_size(std::span<const std::byte> file, std::string_view file_name);

/// Resizes the shorter side to `size` and cuts out the centre, as three planes [3][size][size]. The
/// filter is a triangle as wide as the reduction (anti-aliased bilinear, as Pillow and
/// torchvision), in integers: the same bytes on every machine.
void resize_and_crop(const RgbImage& image, std::int64_t size, std::span<std::uint8_t> planes);

}  // namespace triaccel
