#include "triaccel/kernels/image_patches.h"

#include <algorithm>
#include <vector>

#include "triaccel/kernels/float_type_math.h"

namespace triaccel::kernels::cpu {
namespace {

/// Below so many numbers of the matrix another thread costs more than it saves.
constexpr std::int64_t kNumbersAlone = 1 << 17;

/// Positions from the first to the last that a window sees, those outside the map included.
std::int64_t seen(const WindowAxis& axis) { return (axis.output - 1) * axis.stride + axis.window; }

/// What the windows see of one image, in the matrix's type, [row][column][channel].
template <typename Image, typename Matrix>
void convert_image(const PatchShape& shape, const void* images, std::int64_t image,
                   typename Matrix::Word* padded) {
  const WindowAxis &rows = shape.rows, &columns = shape.columns;
  const std::int64_t channels = shape.channels, width = seen(columns);
  const std::int64_t pixels = rows.input * columns.input;
  const std::int64_t pixel_step = shape.channels_last ? channels : 1;
  const std::int64_t channel_step = shape.channels_last ? 1 : pixels;
  const auto* from = static_cast<const typename Image::Word*>(images) + image * pixels * channels;
  for (std::int64_t y = 0; y < std::min(rows.input, seen(rows) - rows.padding); ++y)
    for (std::int64_t x = 0; x < std::min(columns.input, width - columns.padding); ++x)
      for (std::int64_t c = 0; c < channels; ++c)
        padded[((y + rows.padding) * width + x + columns.padding) * channels + c] = Matrix::word(
            Image::value(from[(y * columns.input + x) * pixel_step + c * channel_step]));
}

template <typename Image, typename Matrix>
void cut(const PatchShape& shape, const void* images, void* matrix) {
  using Word = typename Matrix::Word;
  const WindowAxis &rows = shape.rows, &columns = shape.columns;
  const std::int64_t width = seen(columns) * shape.channels;
  const std::int64_t run = columns.window * shape.channels;  // of a window in one row of the map
  const std::int64_t added = patch_columns(patch_numbers(shape)) - patch_numbers(shape);
  const std::int64_t image_numbers =
      rows.output * columns.output * patch_columns(patch_numbers(shape));
#pragma omp parallel if (shape.images * image_numbers > kNumbersAlone)
  {
    std::vector<Word> padded(static_cast<std::size_t>(seen(rows) * width));
#pragma omp for schedule(static)
    for (std::int64_t image = 0; image < shape.images; ++image) {
      convert_image<Image, Matrix>(shape, images, image, padded.data());
      Word* to = static_cast<Word*>(matrix) + image * image_numbers;
      for (std::int64_t row = 0; row < rows.output; ++row)
        for (std::int64_t column = 0; column < columns.output; ++column) {
          const Word* from =
              padded.data() + row * rows.stride * width + column * columns.stride * shape.channels;
          for (std::int64_t tap = 0; tap < rows.window; ++tap)
            to = std::copy_n(from + tap * width, run, to);
          to = std::fill_n(to, added, Word{});
        }
    }
  }
}

}  // namespace

void image_patches(const PatchShape& shape, const void* images, void* matrix) {
  with_stored_type(shape.image_type, [&]<typename Image>(Image) {
    with_stored_type(shape.matrix_type,
                     [&]<typename Matrix>(Matrix) { cut<Image, Matrix>(shape, images, matrix); });
  });
}

}  // namespace triaccel::kernels::cpu
