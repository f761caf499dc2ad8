#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "triaccel/kernels/common/float_type_math.h"
#include "triaccel/kernels/compression/dither.h"

// What the tests of all codecs share: values as they are stored, and the offsets a key draws.
namespace triaccel::kernels {

using Bytes = std::vector<std::uint8_t>;

inline Bytes stored_as(FloatType type, const std::vector<float>& values) {
  Bytes bytes;
  with_stored_type(type, [&]<typename Stored>(Stored) {
    bytes.resize(values.size() * sizeof(typename Stored::Word));
    for (std::size_t i = 0; i < values.size(); ++i) {
      const typename Stored::Word word = Stored::word(values[i]);
      std::memcpy(bytes.data() + i * sizeof word, &word, sizeof word);
    }
  });
  return bytes;
}

inline std::vector<float> read_as(FloatType type, const Bytes& bytes) {
  std::vector<float> values;
  with_stored_type(type, [&]<typename Stored>(Stored) {
    typename Stored::Word word;
    for (std::size_t at = 0; at < bytes.size(); at += sizeof word) {
      std::memcpy(&word, bytes.data() + at, sizeof word);
      values.push_back(Stored::value(word));
    }
  });
  return values;
}

/// Equal, a NaN being equal to a NaN.
inline bool same_number(float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); }

/// Equal bits, or both NaN.
inline bool same_numbers(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (bits_of_float(a[i]) != bits_of_float(b[i]) && !(std::isnan(a[i]) && std::isnan(b[i])))
      return false;
  return true;
}

/// Offset `place` of a call, of eight or of sixteen.
inline float drawn_offset(const DitherKey& key, std::uint64_t call, std::int64_t place) {
  const DitherDraws draws(key);
  const OffsetWords words = offset_words(draws.words(call, draws.high()));
  return dither_offset(words.words[place / 2], static_cast<int>(place % 2));
}

/// Counts around everything that lanes, words, groups and tiles of 32 to 1,024 elements begin or
/// end with.
inline const std::vector<std::int64_t>& odd_counts() {
  static const std::vector<std::int64_t> counts = {0,   1,   7,   13,   31,   32,   33,  197,
                                                   255, 256, 257, 1024, 1025, 7000, 7300};
  return counts;
}

}  // namespace triaccel::kernels
