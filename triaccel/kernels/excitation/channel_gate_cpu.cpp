#include "triaccel/kernels/excitation/channel_gate.h"

#include <algorithm>
#include <vector>

#include "triaccel/kernels/common/float_type_math.h"

namespace triaccel::kernels::cpu {
namespace {

/// Below so many elements another thread costs more than it saves.
constexpr std::int64_t kElementsAlone = 1 << 15;

bool is_large(const ChannelMaps& maps) {
  return maps.images * maps.pixels * maps.channels > kElementsAlone;
}

template <typename Stored>
void sum_pixels(const ChannelMaps& maps, const PixelSum& sum) {
  using Word = typename Stored::Word;
  const std::int64_t channels = maps.channels;
#pragma omp parallel if (is_large(maps))
  {
    std::vector<float> sums(static_cast<std::size_t>(channels));
#pragma omp for schedule(static)
    for (std::int64_t image = 0; image < maps.images; ++image) {
      std::fill(sums.begin(), sums.end(), 0.0f);
      for (std::int64_t pixel = 0; pixel < maps.pixels; ++pixel) {
        const std::int64_t at = (image * maps.pixels + pixel) * channels;
        const Word* map = static_cast<const Word*>(sum.map) + at;
        float* into = sums.data();
        if (sum.factor == nullptr) {
#pragma omp simd
          for (std::int64_t c = 0; c < channels; ++c) into[c] += Stored::value(map[c]);
        } else {
          const Word* factor = static_cast<const Word*>(sum.factor) + at;
#pragma omp simd
          for (std::int64_t c = 0; c < channels; ++c)
            into[c] += Stored::value(map[c]) * Stored::value(factor[c]);
        }
      }
      Word* result = static_cast<Word*>(sum.result) + image * channels;
      for (std::int64_t c = 0; c < channels; ++c)
        result[c] = Stored::word(sums[static_cast<std::size_t>(c)] / sum.divisor);
    }
  }
}

template <typename Stored>
void gate_pixels(const ChannelMaps& maps, const ChannelGate& gate) {
  using Word = typename Stored::Word;
  const std::int64_t channels = maps.channels;
#pragma omp parallel if (is_large(maps))
  {
    std::vector<float> gates(static_cast<std::size_t>(channels)), offsets(gates);
#pragma omp for schedule(static)
    for (std::int64_t image = 0; image < maps.images; ++image) {
      for (std::int64_t c = 0; c < channels; ++c) {
        const auto at = [&](const void* of) {
          return Stored::value(static_cast<const Word*>(of)[image * channels + c]);
        };
        const auto i = static_cast<std::size_t>(c);
        if (gate.map != nullptr) gates[i] = at(gate.gate);
        if (gate.offset != nullptr) offsets[i] = at(gate.offset) / gate.divisor;
      }
      for (std::int64_t pixel = 0; pixel < maps.pixels; ++pixel) {
        const std::int64_t at = (image * maps.pixels + pixel) * channels;
        Word* result = static_cast<Word*>(gate.result) + at;
        const float *scale = gates.data(), *shift = offsets.data();
        if (gate.map == nullptr) {
          for (std::int64_t c = 0; c < channels; ++c) result[c] = Stored::word(shift[c]);
        } else {
          const Word* map = static_cast<const Word*>(gate.map) + at;
#pragma omp simd
          for (std::int64_t c = 0; c < channels; ++c)
            result[c] = Stored::word(Stored::value(map[c]) * scale[c] + shift[c]);
        }
      }
    }
  }
}

}  // namespace

void pixel_sum(const ChannelMaps& maps, const PixelSum& sum) {
  with_stored_type(maps.type, [&]<typename Stored>(Stored) { sum_pixels<Stored>(maps, sum); });
}

void channel_gate(const ChannelMaps& maps, const ChannelGate& gate) {
  with_stored_type(maps.type, [&]<typename Stored>(Stored) { gate_pixels<Stored>(maps, gate); });
}

}  // namespace triaccel::kernels::cpu
