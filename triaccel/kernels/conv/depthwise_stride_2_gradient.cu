#include "triaccel/kernels/conv/depthwise.cuh"

namespace triaccel::kernels::cuda {
namespace {

constexpr int kPairs = kStripColumns / 2;

/// With the padding counted in, rows 2t and 2t + 1 of the input read rows t, t - 1, ... of the
/// output: the even one through the even taps, the odd one through the odd taps. Columns likewise.
/// So the input is cut into pairs of rows and columns; pair 0 is the first that lies in the map.
template <typename Pack, int filter>
__global__ void __launch_bounds__(kStripThreads, 4)
    scatter_kernel(const __grid_constant__ StripJob job, Pack pack) {
  using Word = typename Pack::Word;
  constexpr int channels = Pack::kChannels;
  constexpr int reach = (filter + 1) / 2;  // rows of `from` that a row of `to` reads, at most
  constexpr int columns = kPairs + reach - 1;
  __shared__ GroupFilters<Pack, filter> filters;

  const auto [strip, lane, index, exists] = begin_strip(job, filters, /*turned=*/false, pack);
  if (!exists) return;
  float taps[filter * filter][channels];
  filters.read(lane, taps);

  const StripPlace place = locate_strip(job.cut, job.cut_rows, strip);
  const std::int32_t first_row = job.padding_rows / 2 + place.row;
  const std::int32_t first_column = job.padding_columns / 2 + place.column / 2;
  ColumnReader<Word, columns> from(job.from, job.from_size, job.cut.packs, place.image,
                                   first_row - (reach - 1), first_column - (reach - 1), index);
  const std::int32_t to_column = 2 * first_column - job.padding_columns;
  const auto pixel_step = static_cast<std::uint32_t>(job.cut.packs * sizeof(Word));
  const std::int64_t row_step = std::int64_t{job.to_size.columns} * pixel_step;
  std::int32_t to_row = 2 * first_row - job.padding_rows;
  Word* to =
      static_cast<Word*>(job.to) +
      ((std::int64_t{place.image} * job.to_size.rows + to_row) * job.to_size.columns + to_column) *
          job.cut.packs +
      index;

  Word window[reach][columns];  // a ring: row t lies in slot (t - first_row) mod reach
#pragma unroll
  for (int above = reach - 1; above > 0; --above) from.load_row(true, window[reach - above]);
  Word next[columns];
  from.load_row(true, next);
  for (std::int32_t base = 0;; base += reach) {
#pragma unroll
    for (int u = 0; u < reach; ++u) {
      const std::int32_t step = base + u;
      if (step >= place.rows) return;
#pragma unroll
      for (int c = 0; c < columns; ++c) window[u][c] = next[c];
      from.load_row(step + 1 < place.rows, next);
#pragma unroll
      for (int odd_row = 0; odd_row < 2; ++odd_row, ++to_row, to = next_row(to, row_step)) {
        const bool in_row = to_row >= 0 && to_row < job.to_size.rows;
#pragma unroll
        for (int p = 0; p < kStripColumns; ++p) {
          float sum[channels] = {};
#pragma unroll
          for (int tap_row = odd_row; tap_row < filter; tap_row += 2)
#pragma unroll
            for (int tap_column = p % 2; tap_column < filter; tap_column += 2) {
              float x[channels];
              pack.unpack(
                  window[(u - tap_row / 2 + reach) % reach][p / 2 + reach - 1 - tap_column / 2], x);
#pragma unroll
              for (int v = 0; v < channels; ++v)
                sum[v] += taps[tap_row * filter + tap_column][v] * x[v];
            }
          if (in_row && to_column + p >= 0 && to_column + p < job.to_size.columns)
            __stwb(pixels_on(to, pixel_step, p), pack.pack(sum));
        }
      }
    }
  }
}

/// Pairs that hold the places padding .. padding + extent - 1.
std::int64_t pairs_of(const DepthwiseAxis& axis) {
  return (axis.padding + axis.input - 1) / 2 - axis.padding / 2 + 1;
}

}  // namespace

void scatter_gradient(const DepthwiseShape& shape, const void* output_gradient, const float* weight,
                      void* input_gradient, cudaStream_t stream) {
  const StripJob job = strip_job(shape, output_gradient, weight, input_gradient, /*backward=*/true,
                                 pairs_of(shape.rows), 2 * pairs_of(shape.columns));
  with_filter_and_pack(shape, [&](auto filter, auto pack) {
    using Pack = decltype(pack);
    launch_overlapped("depthwise_input_gradient", scatter_kernel<Pack, decltype(filter)::kValue>,
                      strip_shape<Pack>(job.cut), stream, job, pack);
  });
}

}  // namespace triaccel::kernels::cuda
