#include "triaccel/kernels/conv/max_pool.cuh"

namespace triaccel::kernels::cuda {
namespace {

/// All ones for every half of `values` that replaces its counterpart of `best`.
template <typename Stored>
__device__ std::uint32_t replacing_halves(Stored, std::uint32_t values, std::uint32_t best) {
#if __CUDA_ARCH__ >= 900
  std::uint32_t greater, nan;
  if constexpr (std::is_same_v<Stored, StoredAs<FloatType::Bf16>>) {
    asm("set.gt.u32.bf16x2 %0, %1, %2;" : "=r"(greater) : "r"(values), "r"(best));
    asm("set.nan.u32.bf16x2 %0, %1, %1;" : "=r"(nan) : "r"(values));
  } else {
    asm("set.gt.u32.f16x2 %0, %1, %2;" : "=r"(greater) : "r"(values), "r"(best));
    asm("set.nan.u32.f16x2 %0, %1, %1;" : "=r"(nan) : "r"(values));
  }
  return greater | nan;
#else
  std::uint32_t mask = 0;
  for (int shift = 0; shift < 32; shift += 16)
    if (replaces(Stored::value(static_cast<std::uint16_t>(values >> shift)),
                 Stored::value(static_cast<std::uint16_t>(best >> shift))))
      mask |= 0xffffu << shift;
  return mask;
#endif
}

/// The largest numbers so far and their taps. Halves stay two to a register, and so do their taps:
/// the kernel would otherwise wait for comparisons, not for memory.
template <typename Stored, int kPack>
struct Best {
  using Word = typename Stored::Word;
  static constexpr int kOfRegister = kPack == 1 ? 1 : 4 / sizeof(Word);
  static constexpr int kRegisters = kPack / kOfRegister;
  std::uint32_t values[kRegisters], taps[kRegisters];

  __device__ Best(const ChannelPack<Stored, kPack>& first, std::int32_t tap) {
#pragma unroll
    for (int i = 0; i < kRegisters; ++i) {
      values[i] = bits(first, i);
      taps[i] = spread(tap);
    }
  }

  __device__ void consider(const ChannelPack<Stored, kPack>& candidates, std::int32_t tap) {
#pragma unroll
    for (int i = 0; i < kRegisters; ++i) {
      const std::uint32_t candidate = bits(candidates, i);
      std::uint32_t mask;
      if constexpr (sizeof(Word) == 2)
        mask = replacing_halves(Stored{}, candidate, values[i]);
      else
        mask = replaces(float_from_bits(candidate), float_from_bits(values[i])) ? ~0u : 0u;
      values[i] = (candidate & mask) | (values[i] & ~mask);
      taps[i] = (spread(tap) & mask) | (taps[i] & ~mask);
    }
  }

  __device__ void store(void* to_values, std::uint8_t* to_taps, std::int64_t element) const {
    auto* to = static_cast<Word*>(to_values) + element;
    to_taps += element;
    if constexpr (kPack == 1) {
      memcpy(to, values, sizeof(Word));
      *to_taps = static_cast<std::uint8_t>(taps[0]);
    } else {
      __stwb(reinterpret_cast<uint4*>(to), make_uint4(values[0], values[1], values[2], values[3]));
      if constexpr (kPack == 4)
        *reinterpret_cast<std::uint32_t*>(to_taps) =
            taps[0] | taps[1] << 8 | taps[2] << 16 | taps[3] << 24;
      else
        __stwb(reinterpret_cast<uint2*>(to_taps),
               make_uint2(__byte_perm(taps[0], taps[1], 0x6420),
                          __byte_perm(taps[2], taps[3], 0x6420)));
    }
  }

 private:
  __device__ static std::uint32_t bits(const ChannelPack<Stored, kPack>& pack, int i) {
    if constexpr (std::is_same_v<typename ChannelPack<Stored, kPack>::Raw, float>)
      return bits_of_float(pack.raw[i]);
    else
      return pack.raw[i];
  }
  __device__ static std::uint32_t spread(std::int32_t tap) {
    return static_cast<std::uint32_t>(tap) * (kOfRegister == 2 ? 0x10001u : 1u);
  }
};

/// Square windows of kWindow taps per side; 0: any.
template <typename Stored, int kPack, int kWindow>
__global__ void __launch_bounds__(kPoolThreads, kPoolBlocks)
    pool_kernel(const void* map, void* values, std::uint8_t* taps,
                const __grid_constant__ Pooling pooling) {
  const PoolPlace place = place_of_thread<kPack>(pooling);
  wait_for_previous_kernel();
  if (!place.exists) return;
  const PoolAxis &rows = pooling.rows, &columns = pooling.columns;
  const std::int32_t y = rows.start(place.row), x = columns.start(place.column);
  const std::int32_t first_pixel = place.image * rows.input * columns.input;
  const auto load = [&](std::int32_t row, std::int32_t column) {
    const std::int32_t pixel = first_pixel + row * columns.input + column;
    return load_channels<Stored, kPack>(map,
                                        std::int64_t{pixel} * pooling.channels + place.channel);
  };
  const auto store = [&](const Best<Stored, kPack>& best) {
    best.store(values, taps, std::int64_t{place.index} * pooling.channels + place.channel);
  };
  if constexpr (kWindow > 0) {
    // All taps are inside then: loads without branches are all on their way at once.
    std::int32_t near_rows[kWindow], near_columns[kWindow];
#pragma unroll
    for (int i = 0; i < kWindow; ++i) {
      near_rows[i] = nearest_inside(y + i, rows.input);
      near_columns[i] = nearest_inside(x + i, columns.input);
    }
    ChannelPack<Stored, kPack> window[kWindow][kWindow];
#pragma unroll
    for (int r = 0; r < kWindow; ++r)
#pragma unroll
      for (int c = 0; c < kWindow; ++c) window[r][c] = load(near_rows[r], near_columns[c]);
    const auto tap = [&](int r, int c) {
      return (near_rows[r] - y) * kWindow + near_columns[c] - x;
    };
    Best<Stored, kPack> best(window[0][0], tap(0, 0));
#pragma unroll
    for (int i = 1; i < kWindow * kWindow; ++i)
      best.consider(window[i / kWindow][i % kWindow], tap(i / kWindow, i % kWindow));
    store(best);
  } else {
    const std::int32_t first_row = max(0, -y), row_end = min(rows.window, rows.input - y);
    const std::int32_t first_column = max(0, -x);
    const std::int32_t column_end = min(columns.window, columns.input - x);
    Best<Stored, kPack> best(load(y + first_row, x + first_column),
                             first_row * columns.window + first_column);
    for (std::int32_t r = first_row; r < row_end; ++r)
      for (std::int32_t c = first_column; c < column_end; ++c)
        best.consider(load(y + r, x + c), r * columns.window + c);
    store(best);
  }
}

}  // namespace

void max_pool(const PoolShape& shape, const void* map, void* values, std::uint8_t* taps,
              cudaStream_t stream) {
  if (shape.images * shape.channels == 0) return;
  with_channel_pack(shape.type, shape.channels, aligned_for_vectors(map, values, taps),
                    [&]<typename Stored, int kPack>(Stored, Constant<kPack>) {
                      const auto launch = [&](auto kernel) {
                        launch_pooling("max_pool", kernel, shape, kPack, shape.rows.output,
                                       shape.columns.output, stream, map, values, taps);
                      };
                      if constexpr (kPack > 1) {
                        if (is_square(shape, 3)) return launch(pool_kernel<Stored, kPack, 3>);
                        if (is_square(shape, 2)) return launch(pool_kernel<Stored, kPack, 2>);
                      }
                      launch(pool_kernel<Stored, kPack, 0>);
                    });
}

}  // namespace triaccel::kernels::cuda
