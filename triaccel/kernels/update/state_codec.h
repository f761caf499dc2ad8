#pragma once

#include <cstdint>

#include "triaccel/base/divide_up.h"

// Note [State in 8 bits]
//
// An optimizer's state as floats of 8 bits. Blocks of 128 values that follow each other in memory
// share one byte, the exponent of their largest magnitude; a byte per value says how many octaves
// below that it lies, and three bits of its fraction. First moments (SGD's momentum, AdamW's m)
// have a sign and 15 octaves, the lowest going on to zero in eight equal steps, 2^-17 of the
// block's power of two each; second moments have no sign and 31 octaves, down to 2^-33. Levels are
// 1/16 to 1/8 of a value apart, so rounding moves a value by 3.8 % of it (root mean square).
//
// Rounding is random, up with the probability that makes the expectation exact (to 2^-17 of the
// distance of two levels, the grain of 16 random bits). Rounded to nearest, a second moment would
// stand still: a step with beta2 = 0.999 changes it by about a hundredth of that distance.
//
// Why no levels on a curve below a block's maximum, as 8-bit optimizers have elsewhere (Dettmers et
// al. 2022):
//   - Levels of all exponents lie on one grid. A value that does not change is not rounded again,
//     whatever its neighbours do, unless they leave it below the lowest octave; one that changes by
//     d gets noise of variance d * distance at most, not of distance^2 / 6: what makes random
//     rounding of a slow average quiet.
//   - Reading and writing are a few operations on whole numbers, equal on every device.
//   - Coding what was decoded changes no value. A checkpoint therefore holds FP32 values in the
//     parameter's own order, whether the state is in 8 bits or not, and goes on bit for bit.
//   - Rounding adds to AdamW's m at most an eighth of it or about 2^-17 of the block's largest, and
//     sqrt(v) never falls below 2^-17 of its largest: no quotient of two small values jumps. A
//     positive second moment never becomes 0; below the lowest level it is rounded up, to a step
//     that is too small rather than too large.
//
// A value that is not finite is kept as the largest; the weight it updated is not finite either.

namespace triaccel::kernels {

inline constexpr std::int64_t kStateBlock = 128;

/// Which code a state has.
enum class Moment : std::uint8_t { First, Second };

constexpr std::int64_t state_blocks(std::int64_t count) { return divide_up(count, kStateBlock); }

/// Bytes of the codes of `count` values: those of whole blocks, the last filled up with zeros, then
/// the exponents of the blocks. All bytes zero: all values zero. Codes start at a multiple of
/// kStateBlock bytes.
constexpr std::int64_t quantized_state_bytes(std::int64_t count) {
  return state_blocks(count) * (kStateBlock + 1);
}

/// The same up to where the codes of another tensor may start.
constexpr std::int64_t state_encoded_bytes(std::int64_t count) {
  return round_up(quantized_state_bytes(count), kStateBlock);
}

/// For checkpoints, which are written by the host. Values that are on no level are rounded with the
/// offsets of `seed`.
namespace cpu {
void encode_state(const float* values, std::int64_t count, Moment moment, std::uint64_t seed,
                  std::uint8_t* codes);
void decode_state(const std::uint8_t* codes, std::int64_t count, Moment moment, float* values);
}  // namespace cpu

}  // namespace triaccel::kernels
