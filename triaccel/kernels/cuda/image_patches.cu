#include "triaccel/kernels/image_patches.h"

#include "triaccel/kernels/cuda/fast_divide.cuh"
#include "triaccel/kernels/cuda/launch.cuh"
#include "triaccel/kernels/float_type_math.h"

namespace triaccel::kernels::cuda {
namespace {

constexpr std::int64_t kTileWords = 8192;   // of shared memory; one window needs up to 4096
constexpr std::int64_t kTileStores = 1024;  // 16 bytes each, that a block aims at
constexpr int kLoads = 4;                   // of a thread, on their way at once
constexpr std::int64_t kFewBlocks = 264;    // two for each multiprocessor of a large chip

/// A block copies what `rows` x `columns` windows of one image see to shared memory, rounded and
/// with zeros outside the image, and writes those windows from there: a thread the same 16 bytes of
/// every row of the matrix it takes.
struct Tiles {
  std::int32_t rows, columns;            // windows of a tile
  std::int32_t row_tiles, column_tiles;  // of an image
  std::int32_t seen_rows, seen_columns;  // pixels of a tile
  std::int32_t stores;                   // of a row of the matrix
};

struct TileAxis {
  std::int32_t input, output, window, stride, padding;

  explicit TileAxis(const WindowAxis& axis)
      : input(static_cast<std::int32_t>(axis.input)),
        output(static_cast<std::int32_t>(axis.output)),
        window(static_cast<std::int32_t>(axis.window)),
        stride(static_cast<std::int32_t>(axis.stride)),
        padding(static_cast<std::int32_t>(axis.padding)) {}
};

/// A line is a row of pixels, or of one of their channels where those do not lie innermost.
struct Work {
  TileAxis rows, columns;
  Tiles tiles;
  FastDivide planes;       // channels, where they are not innermost; else 1
  FastDivide line_length;  // numbers of a tile's line
  FastDivide run;          // numbers of a window in one row of pixels
  std::int32_t channels;
  std::int32_t numbers;  // of a window
  bool channels_last;
  bool to_f16;  // else BF16; unless words are FP32
};

std::int64_t ceil_divide(std::int64_t count, std::int64_t by) { return (count + by - 1) / by; }

std::int64_t seen(const WindowAxis& axis, std::int64_t windows) {
  return (windows - 1) * axis.stride + axis.window;
}

Tiles cut_tiles(const PatchShape& shape, int numbers_per_store) {
  const std::int64_t stores = patch_columns(patch_numbers(shape)) / numbers_per_store;
  const auto words = [&](std::int64_t rows, std::int64_t columns) {
    return seen(shape.rows, rows) * seen(shape.columns, columns) * shape.channels;
  };
  const auto even = [](std::int64_t count, std::int64_t size) {  // parts of about equal size
    return ceil_divide(count, ceil_divide(count, size));
  };
  std::int64_t columns = shape.columns.output;
  while (columns > 1 && (words(1, columns) > kTileWords || columns * stores > 2 * kTileStores))
    columns = even(shape.columns.output, columns / 2);
  const std::int64_t column_tiles = ceil_divide(shape.columns.output, columns);
  std::int64_t rows =
      std::clamp<std::int64_t>(kTileStores / (columns * stores), 1, shape.rows.output);
  rows = even(shape.rows.output, rows);
  while (rows > 1 &&
         (words(rows, columns) > kTileWords ||
          shape.images * column_tiles * ceil_divide(shape.rows.output, rows) < kFewBlocks))
    rows = even(shape.rows.output, rows / 2);
  return {.rows = static_cast<std::int32_t>(rows),
          .columns = static_cast<std::int32_t>(columns),
          .row_tiles = static_cast<std::int32_t>(ceil_divide(shape.rows.output, rows)),
          .column_tiles = static_cast<std::int32_t>(column_tiles),
          .seen_rows = static_cast<std::int32_t>(seen(shape.rows, rows)),
          .seen_columns = static_cast<std::int32_t>(seen(shape.columns, columns)),
          .stores = static_cast<std::int32_t>(stores)};
}

template <typename Word>
__device__ Word word_of(float value, bool to_f16) {
  if constexpr (sizeof(Word) == 4)
    return value;
  else
    return to_f16 ? float_to_f16(value) : float_to_bf16(value);
}

__device__ uint4 store_of(const std::uint16_t (&words)[8]) {
  const auto pair = [&](int i) { return words[i] | std::uint32_t{words[i + 1]} << 16; };
  return make_uint4(pair(0), pair(2), pair(4), pair(6));
}

__device__ uint4 store_of(const float (&words)[4]) {
  return make_uint4(bits_of_float(words[0]), bits_of_float(words[1]), bits_of_float(words[2]),
                    bits_of_float(words[3]));
}

struct TilePlace {
  std::int64_t image;
  std::int32_t row, column;  // its first window
};

__device__ TilePlace locate_tile(const Tiles& tiles) {
  const unsigned above = blockIdx.x / static_cast<unsigned>(tiles.column_tiles);
  const unsigned row_tiles = static_cast<unsigned>(tiles.row_tiles);
  return {std::int64_t{above / row_tiles},
          static_cast<std::int32_t>(above % row_tiles) * tiles.rows,
          static_cast<std::int32_t>(blockIdx.x % static_cast<unsigned>(tiles.column_tiles)) *
              tiles.columns};
}

/// To be called by the whole block.
template <typename Image, typename Word>
__device__ void load_tile(const void* images, const Work& work, const TilePlace& place,
                          Word* tile) {
  const bool last = work.channels_last;
  const std::int32_t planes = last ? 1 : work.channels, numbers = last ? work.channels : 1;
  const std::int32_t pitch = work.tiles.seen_columns * work.channels;
  const std::int32_t first_row = place.row * work.rows.stride - work.rows.padding;
  const std::int32_t begin = (place.column * work.columns.stride - work.columns.padding) * numbers;
  const std::int32_t end = work.columns.input * numbers;  // of a line of the image
  const auto* from = static_cast<const typename Image::Word*>(images) +
                     place.image * work.rows.input * work.columns.input * work.channels;
  const std::int32_t count = work.tiles.seen_rows * pitch;
  const auto threads = static_cast<std::int32_t>(blockDim.x * blockDim.y);
  for (auto first = static_cast<std::int32_t>(threadIdx.y * blockDim.x + threadIdx.x);
       first < count; first += kLoads * threads) {
    // Numbers outside the image read its first one: loads without branches are all on their way at
    // once.
    typename Image::Word loaded[kLoads];
    std::int32_t to[kLoads];
    bool inside[kLoads];
#pragma unroll
    for (int k = 0; k < kLoads; ++k) {
      const FastDivide::Result line = work.line_length(first + k * threads);
      const FastDivide::Result row = work.planes(line.quotient);
      const std::int32_t y = first_row + row.quotient, x = begin + line.remainder;
      const std::int64_t image_line = std::int64_t{row.remainder} * work.rows.input + y;
      inside[k] =
          (first + k * threads < count) & (y >= 0) & (y < work.rows.input) & (x >= 0) & (x < end);
      loaded[k] = from[inside[k] ? image_line * end + x : 0];
      to[k] = row.quotient * pitch + line.remainder * planes + row.remainder;
    }
#pragma unroll
    for (int k = 0; k < kLoads; ++k)
      if (first + k * threads < count)
        tile[to[k]] = word_of<Word>(inside[k] ? Image::value(loaded[k]) : 0.0f, work.to_f16);
  }
}

template <typename Image, typename Word>
__global__ void __launch_bounds__(kThreads)
    patch_kernel(const void* images, uint4* matrix, const __grid_constant__ Work work) {
  constexpr int kNumbers = 16 / sizeof(Word);
  extern __shared__ uint4 shared[];
  Word* tile = reinterpret_cast<Word*>(shared);
  const Tiles& tiles = work.tiles;
  const TilePlace place = locate_tile(tiles);
  load_tile<Image>(images, work, place, tile);
  __syncthreads();
  const std::int32_t pitch = tiles.seen_columns * work.channels;
  const auto slots = static_cast<std::int32_t>(blockDim.y);
  const auto slot = static_cast<std::int32_t>(threadIdx.y);
  const std::int64_t image_row = place.image * work.rows.output + place.row;
  for (auto store = static_cast<std::int32_t>(threadIdx.x); store < tiles.stores;
       store += static_cast<std::int32_t>(blockDim.x)) {
    std::int32_t offsets[kNumbers];
    const std::int32_t live = work.numbers - store * kNumbers;  // the columns after are zero
#pragma unroll
    for (int k = 0; k < kNumbers; ++k) {
      const FastDivide::Result tap_row = work.run(store * kNumbers + k);
      offsets[k] = tap_row.quotient * pitch + tap_row.remainder;
    }
    std::int32_t row = slot / tiles.columns, column = slot % tiles.columns;
    while (row < tiles.rows && place.row + row < work.rows.output) {
      if (place.column + column < work.columns.output) {
        const Word* window =
            tile + row * work.rows.stride * pitch + column * work.columns.stride * work.channels;
        Word words[kNumbers];
#pragma unroll
        for (int k = 0; k < kNumbers; ++k) words[k] = k < live ? window[offsets[k]] : Word{};
        const std::int64_t to = (image_row + row) * work.columns.output + place.column + column;
        __stwb(matrix + to * tiles.stores + store, store_of(words));
      }
      for (column += slots; column >= tiles.columns; column -= tiles.columns) ++row;
    }
  }
}

}  // namespace

void image_patches(const PatchShape& shape, const void* images, void* matrix, cudaStream_t stream) {
  if (shape.images == 0) return;
  const auto launch = [&]<typename Image, typename Word>(Image, Word) {
    constexpr int numbers = 16 / sizeof(Word);
    const Tiles tiles = cut_tiles(shape, numbers);
    const std::int64_t lanes = std::min<std::int64_t>(tiles.stores, kThreads);
    const std::int64_t slots = std::min<std::int64_t>(kThreads / lanes, tiles.rows * tiles.columns);
    const bool last = shape.channels_last;
    const Work work = {.rows = TileAxis(shape.rows),
                       .columns = TileAxis(shape.columns),
                       .tiles = tiles,
                       .planes = FastDivide(last ? 1 : shape.channels),
                       .line_length = FastDivide(tiles.seen_columns * (last ? shape.channels : 1)),
                       .run = FastDivide(shape.columns.window * shape.channels),
                       .channels = static_cast<std::int32_t>(shape.channels),
                       .numbers = static_cast<std::int32_t>(patch_numbers(shape)),
                       .channels_last = last,
                       .to_f16 = shape.matrix_type == FloatType::F16};
    const auto bytes = static_cast<std::size_t>(tiles.seen_rows) * tiles.seen_columns *
                       static_cast<std::size_t>(shape.channels) * sizeof(Word);
    const auto blocks = static_cast<unsigned>(shape.images * tiles.row_tiles * tiles.column_tiles);
    patch_kernel<Image, Word>
        <<<blocks, dim3(static_cast<unsigned>(lanes), static_cast<unsigned>(slots)), bytes,
           stream>>>(images, static_cast<uint4*>(matrix), work);
  };
  with_stored_type(shape.image_type, [&]<typename Image>(Image image) {
    if (shape.matrix_type == FloatType::F32)
      launch(image, float{});
    else
      launch(image, std::uint16_t{});
  });
  check_launch("image_patches");
}

}  // namespace triaccel::kernels::cuda
