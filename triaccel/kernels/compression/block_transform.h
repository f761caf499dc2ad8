#pragma once

#include "triaccel/base/host_device.h"

// Cosine transforms (DCT-II) of four, seven and eight numbers in few operations (for 8: Linzer and
// Feig, 1991), always in the same order and with products joined to sums explicitly, so that every
// device gives the same bits. Constant inputs give exact zeros but the first.
//
// With C the orthonormal transform, forward gives sqrt(gain) * C of its input, but for kScale, by
// which its outputs have yet to be multiplied; back, after kScale, the transpose of that. So rows
// and columns forward are gain * C, and forward and back multiply by gain squared.
namespace triaccel::kernels {

/// a * b + c, rounded once. A CPU without such an instruction computes it slowly.
TRIACCEL_HOST_DEVICE inline float fused(float a, float b, float c) {
#ifdef __CUDA_ARCH__
  return __fmaf_rn(a, b, c);
#else
  return __builtin_fmaf(a, b, c);
#endif
}

template <int n>
struct Transform;

template <>
struct Transform<8> {
  static constexpr float kGain = 8.0f;
  static constexpr float kEdge = 0.8314696123025452f;    // cos 3 pi / 16
  static constexpr float kMiddle = 1.1758756024193588f;  // sqrt(2) cos 3 pi / 16
  static constexpr float kEven = 1.3065629648763766f;    // sqrt(2) cos pi / 8
  static constexpr float kScale[8] = {1, kEdge, kEven, kMiddle, 1, kMiddle, kEven, kEdge};

  static constexpr float kTan2 = 0.41421356237309503f;  // tan pi / 8
  static constexpr float kTan1 = 0.198912367379658f;    // tan pi / 16
  static constexpr float kTan3 = 0.6681786379192989f;   // tan 3 pi / 16
  static constexpr float kRatio = 1.1795804271032746f;  // cos pi / 16 over cos 3 pi / 16

  TRIACCEL_HOST_DEVICE static void forward(float (&x)[8]) {
    const float s0 = x[0] + x[7], s1 = x[1] + x[6], s2 = x[2] + x[5], s3 = x[3] + x[4];
    const float d0 = x[0] - x[7], d1 = x[1] - x[6], d2 = x[2] - x[5], d3 = x[3] - x[4];
    const float a0 = s0 + s3, a3 = s0 - s3, a1 = s1 + s2, a2 = s1 - s2;
    const float p0 = fused(-kTan3, d3, d0), p3 = fused(kTan3, d0, d3);
    const float p1 = fused(-kTan1, d2, d1), p2 = fused(kTan1, d1, d2);
    const float q0 = fused(kRatio, p2, p0), q3 = fused(kRatio, p1, p3);
    x[0] = a0 + a1;
    x[1] = q0 + q3;
    x[2] = fused(kTan2, a2, a3);
    x[3] = fused(-kRatio, p2, p0);
    x[4] = a0 - a1;
    x[5] = fused(-kRatio, p1, p3);
    x[6] = fused(kTan2, a3, -a2);
    x[7] = q0 - q3;
  }

  TRIACCEL_HOST_DEVICE static void back(float (&x)[8]) {
    const float a0 = x[0] + x[4], a1 = x[0] - x[4];
    const float a3 = fused(kTan2, x[6], x[2]), a2 = fused(kTan2, x[2], -x[6]);
    const float s0 = a0 + a3, s3 = a0 - a3, s1 = a1 + a2, s2 = a1 - a2;
    const float q0 = x[1] + x[7], q3 = x[1] - x[7];
    const float p0 = q0 + x[3], p2 = q0 - x[3], p3 = q3 + x[5], p1 = q3 - x[5];
    const float d0 = fused(kTan3, p3, p0), d3 = fused(-kTan3, p0, p3);
    const float d1 = fused(kTan1, p2, p1), d2 = fused(-kTan1, p1, p2);
    x[0] = s0 + d0;
    x[1] = fused(kRatio, d1, s1);
    x[2] = fused(kRatio, d2, s2);
    x[3] = s3 + d3;
    x[4] = s3 - d3;
    x[5] = fused(-kRatio, d2, s2);
    x[6] = fused(-kRatio, d1, s1);
    x[7] = s0 - d0;
  }
};

/// Sums and differences of the three pairs; the middle one is taken off the sums beforehand, since
/// the cosines of an even row sum to zero.
template <>
struct Transform<7> {
  static constexpr float kGain = 1.0f;
  static constexpr float kScale[7] = {1, 1, 1, 1, 1, 1, 1};

  static constexpr float kMean = 0.3779644730092272f;    // sqrt(1 / 7)
  static constexpr float kEven1 = 0.48158811712006316f;  // sqrt(2 / 7) cos pi / 7
  static constexpr float kEven3 = 0.11894244232135434f;  // 3 pi / 7
  static constexpr float kEven5 = -0.333269317528993f;   // 5 pi / 7
  static constexpr float kOdd1 = 0.5211208891696024f;    // sqrt(2 / 7) cos pi / 14
  static constexpr float kOdd3 = 0.417906505941275f;
  static constexpr float kOdd5 = 0.23192061392432992f;

  TRIACCEL_HOST_DEVICE static void forward(float (&x)[7]) {
    const float s0 = x[0] + x[6], s1 = x[1] + x[5], s2 = x[2] + x[4];
    const float d0 = x[0] - x[6], d1 = x[1] - x[5], d2 = x[2] - x[4];
    const float e0 = fused(-2.0f, x[3], s0), e1 = fused(-2.0f, x[3], s1);
    const float e2 = fused(-2.0f, x[3], s2);
    x[0] = ((s0 + s1) + (s2 + x[3])) * kMean;
    x[2] = fused(e2, kEven5, fused(e1, kEven3, e0 * kEven1));
    x[4] = fused(e2, -kEven3, fused(e1, -kEven1, e0 * -kEven5));
    x[6] = fused(e2, kEven1, fused(e1, kEven5, e0 * kEven3));
    x[1] = fused(d2, kOdd5, fused(d1, kOdd3, d0 * kOdd1));
    x[3] = fused(d2, -kOdd1, fused(d1, -kOdd5, d0 * kOdd3));
    x[5] = fused(d2, kOdd3, fused(d1, -kOdd1, d0 * kOdd5));
  }

  TRIACCEL_HOST_DEVICE static void back(float (&x)[7]) {
    const float mean = x[0] * kMean;
    const float e0 = fused(x[6], kEven3, fused(x[4], -kEven5, x[2] * kEven1));
    const float e1 = fused(x[6], kEven5, fused(x[4], -kEven1, x[2] * kEven3));
    const float e2 = fused(x[6], kEven1, fused(x[4], -kEven3, x[2] * kEven5));
    const float d0 = fused(x[5], kOdd5, fused(x[3], kOdd3, x[1] * kOdd1));
    const float d1 = fused(x[5], -kOdd1, fused(x[3], -kOdd5, x[1] * kOdd3));
    const float d2 = fused(x[5], kOdd3, fused(x[3], -kOdd1, x[1] * kOdd5));
    const float s0 = mean + e0, s1 = mean + e1, s2 = mean + e2;
    x[0] = s0 + d0;
    x[1] = s1 + d1;
    x[2] = s2 + d2;
    x[3] = fused(-2.0f, (e0 + e1) + e2, mean);
    x[4] = s2 - d2;
    x[5] = s1 - d1;
    x[6] = s0 - d0;
  }
};

template <>
struct Transform<4> {
  static constexpr float kGain = 4.0f;
  static constexpr float kOdd = 1.3065629648763766f;  // sqrt(2) cos pi / 8
  static constexpr float kScale[4] = {1, kOdd, 1, kOdd};
  static constexpr float kTan = 0.41421356237309503f;  // tan pi / 8

  TRIACCEL_HOST_DEVICE static void forward(float (&x)[4]) {
    const float s0 = x[0] + x[3], s1 = x[1] + x[2], d0 = x[0] - x[3], d1 = x[1] - x[2];
    x[0] = s0 + s1;
    x[1] = fused(kTan, d1, d0);
    x[2] = s0 - s1;
    x[3] = fused(kTan, d0, -d1);
  }

  TRIACCEL_HOST_DEVICE static void back(float (&x)[4]) {
    const float s0 = x[0] + x[2], s1 = x[0] - x[2];
    const float d0 = fused(kTan, x[3], x[1]), d1 = fused(kTan, x[1], -x[3]);
    x[0] = s0 + d0;
    x[1] = s1 + d1;
    x[2] = s1 - d1;
    x[3] = s0 - d0;
  }
};

/// What the coefficient at (row, column) has yet to be multiplied by.
template <int block>
constexpr float scale_at(int row, int column) {
  return Transform<block>::kScale[row] * Transform<block>::kScale[column];
}

/// Of rows and columns, forward.
constexpr float gain_of(int block) {
  return block == 8 ? Transform<8>::kGain : block == 7 ? Transform<7>::kGain : Transform<4>::kGain;
}

}  // namespace triaccel::kernels
