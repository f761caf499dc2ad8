#pragma once

#include <array>
#include <cstddef>

namespace triaccel::kernels {

// What the instructions of tensor cores do with the registers of a warp's 32 lanes, as the PTX ISA
// defines them, in FP64.

using Pair = std::array<double, 2>;

/// What the lanes hold of the matrices of one mma.m16n8k16.
struct Fragments {
  std::array<std::array<Pair, 4>, 32> a = {};
  std::array<std::array<Pair, 2>, 32> b = {};
};
using LaneSums = std::array<std::array<double, 4>, 32>;

inline void multiply(const Fragments& f, LaneSums& d) {
  double a[16][16], b[16][8];
  for (std::size_t lane = 0; lane < 32; ++lane) {
    const std::size_t row = lane / 4, slot = lane % 4;
    for (std::size_t i = 0; i < 2; ++i) {
      for (std::size_t r = 0; r < 4; ++r)
        a[row + r % 2 * 8][2 * slot + r / 2 * 8 + i] = f.a[lane][r][i];
      for (std::size_t r = 0; r < 2; ++r) b[2 * slot + r * 8 + i][row] = f.b[lane][r][i];
    }
  }
  for (std::size_t lane = 0; lane < 32; ++lane)
    for (std::size_t n = 0; n < 4; ++n)
      for (std::size_t k = 0; k < 16; ++k)
        d[lane][n] += a[lane / 4 + n / 2 * 8][k] * b[k][lane % 4 * 2 + n % 2];
}

}  // namespace triaccel::kernels
