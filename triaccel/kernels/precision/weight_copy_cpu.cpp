#include "triaccel/kernels/precision/weight_copy.h"

#include <algorithm>

namespace triaccel::kernels::cpu {
namespace {

/// body(index, position, length) for pieces of the innermost dimension, on all threads.
template <typename Body>
void for_each_run(const std::int32_t (&extent)[4], Body body) {
  const std::int64_t count = elements_of(extent);
#pragma omp parallel for schedule(static) if (count > kChunk)
  for (std::int64_t begin = 0; begin < count; begin += kChunk) {
    const std::int64_t end = std::min(begin + kChunk, count);
    for (std::int64_t index = begin, length = 0; index < end; index += length) {
      const BoxPosition position = position_in(extent, index);
      length = std::min<std::int64_t>(end - index, extent[3] - position.at[3]);
      body(index, position, length);
    }
  }
}

template <typename Stored>
void round_run(const float* __restrict from, std::int64_t step, std::uint16_t* __restrict to,
               std::int64_t count) {
  if (step == 1) {
#pragma omp simd
    for (std::int64_t k = 0; k < count; ++k) to[k] = Stored::word(from[k]);
  } else {
    for (std::int64_t k = 0; k < count; ++k) to[k] = Stored::word(from[k * step]);
  }
}

template <typename Word>
void write_whole(const WholeGradient& gradient) {
  const auto* part = static_cast<const Word*>(gradient.part);
  auto* whole = static_cast<Word*>(gradient.whole);
  for_each_run(gradient.extent, [&](std::int64_t index, BoxPosition at, std::int64_t length) {
    Word* to = whole + index;
    if (!in_part(gradient, at, 3)) {
      std::fill_n(to, length, Word{0});
      return;
    }
    for (std::int64_t k = 0; k < length; ++k, ++at.at[3])
      to[k] = in_part(gradient, at, 4) ? part[offset_of(gradient, at)] : Word{0};
  });
}

}  // namespace

void copy_weights(std::span<const WeightCopyEntry> entries) {
  for (const WeightCopyEntry& entry : entries)
    for_each_run(entry.extent, [&](std::int64_t index, BoxPosition at, std::int64_t length) {
      std::uint16_t* to = entry.to + index;
      const float* from = entry.from + offset_of(entry, at);
      if (entry.type == FloatType::Bf16)
        round_run<StoredAs<FloatType::Bf16>>(from, entry.stride[3], to, length);
      else
        round_run<StoredAs<FloatType::F16>>(from, entry.stride[3], to, length);
    });
}

void write_whole_gradient(const WholeGradient& gradient) {
  if (gradient.word_bytes == 2)
    write_whole<std::uint16_t>(gradient);
  else
    write_whole<std::uint32_t>(gradient);
}

}  // namespace triaccel::kernels::cpu
