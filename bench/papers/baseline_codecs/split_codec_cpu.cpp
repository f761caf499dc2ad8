#include "bench/papers/baseline_codecs/split_codec.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "bench/papers/baseline_codecs/three_pass_codec_math.h"

namespace triaccel::kernels::cpu {
namespace {

/// Below so many elements another thread costs more than it saves.
constexpr std::int64_t kElementsAlone = 1 << 14;

}  // namespace

void encode_split(const SplitCoding& coding, const void* values, void* codes,
                  std::int32_t* not_finite) {
  const SplitMeans layout(coding);
  const auto parts = split_parts(coding, static_cast<std::uint8_t*>(codes));
  const std::int64_t elements = coding.rows * coding.columns, count = coding.maps * elements;
  std::vector<PlainRange> ranges(static_cast<std::size_t>(coding.maps));
  std::int64_t damaged = 0;
  with_stored_type(coding.type, [&]<typename Stored>(Stored) {
    const auto* from = static_cast<const typename Stored::Word*>(values);
    const auto mean_of = [&](std::int64_t map, std::int64_t element) {
      std::uint16_t mean = 0;
      std::memcpy(&mean, parts.means + 2 * (map * layout.of_map() + layout.nearest(element)), 2);
      return bf16_to_float(mean);
    };
#pragma omp parallel for schedule(static) reduction(+ : damaged) if (count > kElementsAlone)
    for (std::int64_t map = 0; map < coding.maps; ++map) {
      for (std::int64_t i = 0; i < layout.of_map(); ++i) {
        const std::uint16_t mean = layout.mean<Stored>(from + map * elements, i);
        std::memcpy(parts.means + 2 * (map * layout.of_map() + i), &mean, 2);
      }
      PlainExtremes found = PlainExtremes::of_none();
      for (std::int64_t i = 0; i < elements; ++i)
        found.add(Stored::value(from[map * elements + i]) - mean_of(map, i));
      const PlainRange range = plain_range(found, kActnnBits);
      ranges[static_cast<std::size_t>(map)] = range;
      const std::uint32_t stored = stored_plain_range(range);
      std::memcpy(parts.ranges + 4 * map, &stored, 4);
      damaged += range.low != range.low;
    }
    // A byte may hold codes of several maps.
#pragma omp parallel for schedule(static) if (count > kElementsAlone)
    for (std::int64_t byte = 0; byte < (count + 3) / 4; ++byte) {
      std::uint32_t packed = 0;
      for (std::int64_t i = 4 * byte; i < std::min(4 * byte + 4, count); ++i) {
        const std::int64_t map = i / elements;
        const float rest = Stored::value(from[i]) - mean_of(map, i % elements);
        packed |= plain_code(rest, ranges[static_cast<std::size_t>(map)], kActnnBits, coding.key, i)
                  << i % 4 * 2;
      }
      parts.codes[byte] = static_cast<std::uint8_t>(packed);
    }
  });
  if (not_finite != nullptr) *not_finite += static_cast<std::int32_t>(damaged);
}

void decode_split(const SplitCoding& coding, const void* codes, void* values) {
  const SplitMeans layout(coding);
  const auto parts = split_parts(coding, static_cast<const std::uint8_t*>(codes));
  const std::int64_t elements = coding.rows * coding.columns, count = coding.maps * elements;
  with_stored_type(coding.type, [&]<typename Stored>(Stored) {
    auto* to = static_cast<typename Stored::Word*>(values);
#pragma omp parallel for schedule(static) if (count > kElementsAlone)
    for (std::int64_t map = 0; map < coding.maps; ++map) {
      std::uint32_t stored = 0;
      std::memcpy(&stored, parts.ranges + 4 * map, 4);
      const PlainRange range = read_plain_range(stored);
      for (std::int64_t i = 0; i < elements; ++i) {
        const std::int64_t element = map * elements + i;
        const std::uint32_t code = parts.codes[element / 4] >> element % 4 * 2 & 3u;
        std::uint16_t mean = 0;
        std::memcpy(&mean, parts.means + 2 * (map * layout.of_map() + layout.nearest(i)), 2);
        to[element] = Stored::word(bf16_to_float(mean) + plain_value(code, range));
      }
    }
  });
}

}  // namespace triaccel::kernels::cpu
