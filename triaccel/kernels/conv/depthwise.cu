#include "triaccel/kernels/conv/depthwise.cuh"

namespace triaccel::kernels::cuda {
namespace {

/// For stride 1 the input's gradient is such a convolution too, of the output's gradient, with
/// every filter turned.
///
/// Slides down the rows of `from`. Row `step` of a strip, counted from its first, reaches the rows
/// of `to` whose sums lie in a ring of as many slots; the loop is unrolled over the ring, so that
/// every slot is a register. A sum starts with the row its first tap reads and is stored after the
/// row its last tap reads. Inside the loop conditions are returns or predicates: where branches
/// meet, the compiler would copy half of the registers.
template <typename Pack, int filter, int stride>
__global__ void __launch_bounds__(kStripThreads, 4)
    filter_kernel(const __grid_constant__ StripJob job, Pack pack) {
  using Word = typename Pack::Word;
  constexpr int channels = Pack::kChannels;
  constexpr int slots = divide_up(filter, stride);
  constexpr int turn = slots * stride;  // rows of `from` until the ring comes round
  constexpr int columns = (kStripColumns - 1) * stride + filter;
  __shared__ GroupFilters<Pack, filter> filters;

  const auto [strip, lane, index, exists] = begin_strip(job, filters, job.turned, pack);
  if (!exists) return;
  float taps[filter * filter][channels];
  filters.read(lane, taps);

  const StripPlace place = locate_strip(job.cut, job.to_size.rows, strip);
  ColumnReader<Word, columns> from(job.from, job.from_size, job.cut.packs, place.image,
                                   place.row * stride - job.padding_rows,
                                   place.column * stride - job.padding_columns, index);
  const std::int32_t columns_left = job.to_size.columns - place.column;
  const auto pixel_step = static_cast<std::uint32_t>(job.cut.packs * sizeof(Word));
  const std::int64_t row_step = std::int64_t{job.to_size.columns} * pixel_step;
  constexpr int rows_early = (filter - 1) / stride;  // that seem done before the first is
  Word* to = static_cast<Word*>(job.to) +
             ((std::int64_t{place.image} * job.to_size.rows + place.row - rows_early) *
                  job.to_size.columns +
              place.column) *
                 job.cut.packs +
             index;

  float sums[slots][kStripColumns][channels] = {};
  Word next[columns];
  bool next_live = from.load_row(true, next);
  const std::int32_t steps = (place.rows - 1) * stride + filter;
  for (std::int32_t base = 0;; base += turn) {
#pragma unroll
    for (int u = 0; u < turn; ++u) {
      const std::int32_t step = base + u;
      if (step >= steps) return;
      Word row[columns];
#pragma unroll
      for (int c = 0; c < columns; ++c) row[c] = next[c];
      const bool live = next_live;
      next_live = from.load_row(step + 1 < steps, next);
      if (u % stride == 0) {
#pragma unroll
        for (int p = 0; p < kStripColumns; ++p)
#pragma unroll
          for (int v = 0; v < channels; ++v) sums[u / stride][p][v] = 0;
      }
      if (live) {
#pragma unroll
        for (int c = 0; c < columns; ++c) {
          float x[channels];
          pack.unpack(row[c], x);
#pragma unroll
          for (int tap_row = 0; tap_row < filter; ++tap_row) {
            const int ahead = u - tap_row + 2 * turn;
            if (ahead % stride != 0) continue;
#pragma unroll
            for (int p = 0; p < kStripColumns; ++p) {
              const int tap_column = c - p * stride;
              if (tap_column < 0 || tap_column >= filter) continue;
#pragma unroll
              for (int v = 0; v < channels; ++v)
                sums[ahead / stride % slots][p][v] += taps[tap_row * filter + tap_column][v] * x[v];
            }
          }
        }
      }
      const int done = u - (filter - 1) + 2 * turn;
      if (done % stride == 0) {
        const std::int32_t stored = step >= filter - 1 ? columns_left : 0;
#pragma unroll
        for (int p = 0; p < kStripColumns; ++p)
          if (p < stored)
            __stwb(pixels_on(to, pixel_step, p), pack.pack(sums[done / stride % slots][p]));
        to = next_row(to, row_step);
      }
    }
  }
}

template <int stride>
void launch(std::string_view who, const DepthwiseShape& shape, const StripJob& job,
            cudaStream_t stream) {
  with_filter_and_pack(shape, [&](auto filter, auto pack) {
    using Pack = decltype(pack);
    launch_overlapped(who, filter_kernel<Pack, decltype(filter)::kValue, stride>,
                      strip_shape<Pack>(job.cut), stream, job, pack);
  });
}

}  // namespace

void depthwise_forward(const DepthwiseShape& shape, const void* input, const float* weight,
                       void* output, cudaStream_t stream) {
  if (shape.images == 0 || shape.channels == 0) return;
  const StripJob job = strip_job(shape, input, weight, output, /*backward=*/false,
                                 shape.rows.output, shape.columns.output);
  const auto launcher = shape.stride == 1 ? launch<1> : launch<2>;
  launcher("depthwise_forward", shape, job, stream);
}

void depthwise_input_gradient(const DepthwiseShape& shape, const void* output_gradient,
                              const float* weight, void* input_gradient, cudaStream_t stream) {
  if (shape.images == 0 || shape.channels == 0) return;
  if (shape.stride == 2)
    return scatter_gradient(shape, output_gradient, weight, input_gradient, stream);
  StripJob job = strip_job(shape, output_gradient, weight, input_gradient, /*backward=*/true,
                           shape.rows.input, shape.columns.input);
  job.padding_rows = shape.filter - 1 - job.padding_rows;
  job.padding_columns = shape.filter - 1 - job.padding_columns;
  job.turned = true;
  launch<1>("depthwise_input_gradient", shape, job, stream);
}

}  // namespace triaccel::kernels::cuda
