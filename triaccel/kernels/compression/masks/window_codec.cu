#include "triaccel/kernels/compression/masks/window_codec.h"

#include "triaccel/kernels/common/fast_divide.cuh"
#include "triaccel/kernels/common/launch.cuh"
#include "triaccel/kernels/common/vector_access.cuh"
#include "triaccel/kernels/compression/masks/bit_mask_codec.cuh"

namespace triaccel::kernels::cuda {
namespace {

/// Where the windows along one direction begin, and how far their taps lie apart.
struct Axis {
  std::int32_t stride, padding, dilation;
  FastDivide by_dilation, by_output;

  Axis(const WindowAxis& axis, std::int64_t spacing)
      : stride(static_cast<std::int32_t>(axis.stride)),
        padding(static_cast<std::int32_t>(axis.padding)),
        dilation(static_cast<std::int32_t>(spacing)),
        by_dilation(spacing),
        by_output(axis.output) {}

  __device__ std::int32_t start(std::int32_t window) const { return window * stride - padding; }
};

struct Places {
  Axis rows, columns;
  FastDivide by_inner, by_map_columns, by_window_columns;
  std::int32_t map_columns, window_columns;
  std::uint32_t count, bits;
};

Places places_of(const WindowPlaces& p) {
  return {Axis(p.rows, p.row_dilation),
          Axis(p.columns, p.column_dilation),
          FastDivide(p.inner),
          FastDivide(p.columns.input),
          FastDivide(p.columns.window),
          static_cast<std::int32_t>(p.columns.input),
          static_cast<std::int32_t>(p.columns.window),
          static_cast<std::uint32_t>(p.count),
          static_cast<std::uint32_t>(window_bits(p))};
}

/// Where a window begins, which may lie outside the map.
struct Corner {
  std::int32_t row, column;
};

__device__ Corner corner_of(const Places& places, std::uint32_t window) {
  const std::int32_t line = places.by_inner(static_cast<std::int32_t>(window)).quotient;
  const FastDivide::Result column = places.columns.by_output(line);
  return {places.rows.start(places.rows.by_output(column.quotient).remainder),
          places.columns.start(column.remainder)};
}

__device__ std::uint32_t tap_of(const Places& places, std::uint32_t window, std::int64_t index) {
  const Corner corner = corner_of(places, window);
  const FastDivide::Result pixel = places.by_map_columns(static_cast<std::int32_t>(index));
  const std::int32_t row = places.rows.by_dilation(pixel.quotient - corner.row).quotient;
  const std::int32_t column = places.columns.by_dilation(pixel.remainder - corner.column).quotient;
  return static_cast<std::uint32_t>(row * places.window_columns + column);
}

__device__ std::int64_t index_of(const Places& places, std::uint32_t window, std::uint32_t tap) {
  const Corner corner = corner_of(places, window);
  const FastDivide::Result in_window = places.by_window_columns(static_cast<std::int32_t>(tap));
  const std::int32_t row = corner.row + in_window.quotient * places.rows.dilation;
  return row * places.map_columns + corner.column + in_window.remainder * places.columns.dilation;
}

/// A thread takes two windows, neighbours in memory, and its neighbours the next.
__device__ std::uint32_t first_window() {
  return (blockIdx.x * unsigned{kThreads} + threadIdx.x) * 2u;
}

/// The word that has the taps of a thread.
__device__ std::uint64_t word_of(const Places& places, std::uint32_t window) {
  return std::uint64_t{window} * places.bits / 32;
}

/// How far the taps of a thread lie up in the word that it shares with its neighbours.
__device__ std::uint32_t shift_of(const Places& places, std::uint32_t window) {
  return window * places.bits % 32;
}

__global__ void __launch_bounds__(kThreads)
    encode_kernel(const std::int64_t* indices, bool aligned, std::uint32_t* taps,
                  const __grid_constant__ Places places) {
  const std::uint32_t window = first_window();
  std::uint32_t joined = 0;
  if (aligned && window + 1 < places.count) {
    const longlong2 pair = *reinterpret_cast<const longlong2*>(indices + window);
    joined = tap_of(places, window, pair.x) | tap_of(places, window + 1, pair.y) << places.bits;
  } else {
    if (window < places.count) joined = tap_of(places, window, indices[window]);
    if (window + 1 < places.count)
      joined |= tap_of(places, window + 1, indices[window + 1]) << places.bits;
  }
  joined <<= shift_of(places, window);
  const std::uint32_t sharers = 16 / places.bits;
  for (std::uint32_t distance = 1; distance < sharers; distance *= 2)
    joined |= __shfl_xor_sync(kAllLanes, joined, static_cast<int>(distance));
  if (threadIdx.x % sharers == 0 && window < places.count) taps[word_of(places, window)] = joined;
}

__global__ void __launch_bounds__(kThreads)
    decode_kernel(const std::uint32_t* taps, bool aligned, std::int64_t* indices,
                  const __grid_constant__ Places places) {
  const std::uint32_t window = first_window();
  if (window >= places.count) return;
  const std::uint32_t joined = taps[word_of(places, window)] >> shift_of(places, window);
  const std::uint32_t mask = (1u << places.bits) - 1;
  const std::int64_t first = index_of(places, window, joined & mask);
  if (window + 1 >= places.count) {
    indices[window] = first;
    return;
  }
  const std::int64_t second = index_of(places, window + 1, joined >> places.bits & mask);
  if (aligned) {
    __stwb(reinterpret_cast<longlong2*>(indices + window), make_longlong2(first, second));
  } else {
    indices[window] = first;
    indices[window + 1] = second;
  }
}

}  // namespace

void encode_windows(const WindowPlaces& places, const std::int64_t* indices, std::uint32_t* taps,
                    cudaStream_t stream) {
  if (places.count == 0) return;
  encode_kernel<<<blocks_for(places.count, 2 * kThreads), kThreads, 0, stream>>>(
      indices, aligned_for_vectors(indices), taps, places_of(places));
  check_launch("encode_windows");
}

void decode_windows(const WindowPlaces& places, const std::uint32_t* taps, std::int64_t* indices,
                    cudaStream_t stream) {
  if (places.count == 0) return;
  decode_kernel<<<blocks_for(places.count, 2 * kThreads), kThreads, 0, stream>>>(
      taps, aligned_for_vectors(indices), indices, places_of(places));
  check_launch("decode_windows");
}

}  // namespace triaccel::kernels::cuda
