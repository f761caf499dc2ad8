#include "triaccel/kernels/update/state_codec.h"

#include <algorithm>

#include "triaccel/kernels/update/state_codec_block.h"

namespace triaccel::kernels::cpu {
namespace {

/// body(block, first, here): elements [first, first + here) are those of the block.
template <typename Body>
void for_each_block(std::int64_t count, Body body) {
  const std::int64_t blocks = state_blocks(count);
#pragma omp parallel for schedule(static) if (blocks > 32)
  for (std::int64_t block = 0; block < blocks; ++block) {
    const std::int64_t first = block * kStateBlock;
    body(block, first, std::min(kStateBlock, count - first));
  }
}

template <Moment moment>
void encode(const float* values, std::int64_t count, std::uint64_t seed, std::uint8_t* codes) {
  std::uint8_t* exponents = codes + state_blocks(count) * kStateBlock;
  const StateDraws draws = {random_keys<kDitherRounds>(seed)};
  for_each_block(count, [&](std::int64_t block, std::int64_t first, std::int64_t here) {
    float padded[kStateBlock] = {};
    std::copy_n(values + first, here, padded);
    std::uint32_t words[kStateBlock];
    draw_state_words(draws, first, /*step=*/0, words);
    exponents[block] = write_state_block<moment>(padded, words, codes + first);
  });
}

template <Moment moment>
void decode(const std::uint8_t* codes, std::int64_t count, float* values) {
  const std::uint8_t* exponents = codes + state_blocks(count) * kStateBlock;
  for_each_block(count, [&](std::int64_t block, std::int64_t first, std::int64_t here) {
    float padded[kStateBlock];
    read_state_block<moment>(codes + first, exponents[block], padded);
    std::copy_n(padded, here, values + first);
  });
}

}  // namespace

void encode_state(const float* values, std::int64_t count, Moment moment, std::uint64_t seed,
                  std::uint8_t* codes) {
  if (moment == Moment::First)
    encode<Moment::First>(values, count, seed, codes);
  else
    encode<Moment::Second>(values, count, seed, codes);
}

void decode_state(const std::uint8_t* codes, std::int64_t count, Moment moment, float* values) {
  if (moment == Moment::First)
    decode<Moment::First>(codes, count, values);
  else
    decode<Moment::Second>(codes, count, values);
}

}  // namespace triaccel::kernels::cpu
