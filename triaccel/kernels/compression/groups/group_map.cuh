#pragma once

#include <type_traits>

#include "triaccel/base/error.h"
#include "triaccel/kernels/common/fast_divide.cuh"
#include "triaccel/kernels/compression/codec_map_math.h"
#include "triaccel/kernels/compression/groups/group_lane.cuh"

// What a map makes of decoded groups, four neighbours at a time.
namespace triaccel::kernels::cuda::groups {

/// The coefficients of four channels that follow each other.
using FourNorms = NormCoefficients[4];

/// Any map, any order, any number of elements.
struct QuadMap {
  CodecMap map;
  FastDivide channel_stride, channels, image_stride;
  std::int32_t channel_count;
  bool by_quads;  // channels are neighbours, and four of them always of one image

  __device__ void apply(std::int64_t first, std::int64_t count, float (&quad)[4]) const {
    if (first >= count) return;
    const auto element = static_cast<std::int32_t>(first);
    if (map.by_rows || map.gelu != Gelu::None) {
      apply_rows(element, count, quad);
    } else if (by_quads) {
      const std::int32_t channel = channels(element).remainder;
      FourNorms norms;
      if (map.lowest != nullptr) undo_levels(channel, quad);
      if (map.mean != nullptr) read_norms(channel, norms);
      apply_quad(norms, element, quad);
    } else {
      apply_elements(element, count, quad);
    }
  }

  /// Parameters are nothing that a kernel writes: they may be read long before they are used.
  __device__ static float4 read_four(const float* from) {
    return __ldg(reinterpret_cast<const float4*>(from));
  }

  __device__ void read_norms(std::int32_t channel, FourNorms& norms) const {
    const float4 mean = read_four(map.mean + channel), weight = read_four(map.weight + channel);
    const float4 deviation = read_four(map.inverse_deviation + channel);
    const float4 bias = read_four(map.bias + channel);
    norms[0] = {mean.x, weight.x * deviation.x, bias.x};
    norms[1] = {mean.y, weight.y * deviation.y, bias.y};
    norms[2] = {mean.z, weight.z * deviation.z, bias.z};
    norms[3] = {mean.w, weight.w * deviation.w, bias.w};
  }

  /// Of a layer norm.
  __device__ void read_norms(std::int32_t row, std::int32_t channel, FourNorms& norms) const {
    const float mean = __ldg(map.mean + row), deviation = __ldg(map.inverse_deviation + row);
    const float4 weight = read_four(map.weight + channel), bias = read_four(map.bias + channel);
    norms[0] = {mean, weight.x * deviation, bias.x};
    norms[1] = {mean, weight.y * deviation, bias.y};
    norms[2] = {mean, weight.z * deviation, bias.z};
    norms[3] = {mean, weight.w * deviation, bias.w};
  }

  /// Of four elements of a row.
  __device__ void undo_levels_of(std::int32_t row, float (&quad)[4]) const {
    const float lowest = __ldg(map.lowest + row), range = __ldg(map.range + row);
#pragma unroll
    for (int j = 0; j < 4; ++j) quad[j] = unlevelled(quad[j], lowest, range);
  }

 private:
  __device__ void undo_levels(std::int32_t channel, float (&quad)[4]) const {
    const float4 lowest = read_four(map.lowest + channel), range = read_four(map.range + channel);
    quad[0] = unlevelled(quad[0], lowest.x, range.x);
    quad[1] = unlevelled(quad[1], lowest.y, range.y);
    quad[2] = unlevelled(quad[2], lowest.z, range.z);
    quad[3] = unlevelled(quad[3], lowest.w, range.w);
  }

  __device__ void apply_rows(std::int32_t element, std::int64_t count, float (&quad)[4]) const {
    FourNorms norms;
    if (by_quads && (map.mean != nullptr || map.lowest != nullptr)) {
      const FastDivide::Result row = channels(element);  // remainder: the channel
      if (map.lowest != nullptr) undo_levels_of(row.quotient, quad);
      if (map.mean != nullptr) read_norms(row.quotient, row.remainder, norms);
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      if (element + j >= count) break;
      if (!by_quads && (map.mean != nullptr || map.lowest != nullptr)) {
        const FastDivide::Result row = channels(element + j);
        if (map.lowest != nullptr)
          quad[j] = unlevelled(quad[j], map.lowest[row.quotient], map.range[row.quotient]);
        norms[j] = codec_row_norm(map, row.quotient, row.remainder);
      }
      const float value = codec_mapped(quad[j], norms[j], Activation::None);
      quad[j] = map.gelu == Gelu::Erf    ? gelu<Gelu::Erf>(value)
                : map.gelu == Gelu::Tanh ? gelu<Gelu::Tanh>(value)
                                         : value;
    }
  }

  __device__ std::uint32_t gate_of(std::int32_t element) const {
    return map.activation == Activation::Relu ? map.gate[element / 32] >> (element % 32) : ~0u;
  }

  __device__ void apply_quad(const FourNorms& norms, std::int32_t element, float (&quad)[4]) const {
    const float4 scales =
        map.scales == nullptr
            ? make_float4(1, 1, 1, 1)
            : read_four(map.scales + std::int64_t{image_stride(element).quotient} * channel_count +
                        channels(element).remainder);
    const float by[4] = {scales.x, scales.y, scales.z, scales.w};
    const std::uint32_t open = gate_of(element);
#pragma unroll
    for (int j = 0; j < 4; ++j) quad[j] = one(quad[j], norms[j], open >> j, by[j]);
  }

  __device__ void apply_elements(std::int32_t element, std::int64_t count, float (&quad)[4]) const {
    const std::uint32_t open = gate_of(element);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      if (element + j >= count) break;
      const std::int32_t channel = channels(channel_stride(element + j).quotient).remainder;
      const float scale =
          map.scales == nullptr
              ? 1.0f
              : map.scales[std::int64_t{image_stride(element + j).quotient} * channel_count +
                           channel];
      if (map.lowest != nullptr)
        quad[j] = unlevelled(quad[j], map.lowest[channel], map.range[channel]);
      quad[j] = one(quad[j], codec_norm(map, channel), open >> j, scale);
    }
  }

  __device__ float one(float x, const NormCoefficients& norm, std::uint32_t open,
                       float scale) const {
    const float value = codec_mapped(x, norm, map.activation);
    return (open & 1u) != 0 ? value * scale : 0.0f;
  }
};

inline QuadMap quad_map(const CodecMap& map, const ChannelOrder& order, std::int64_t count) {
  constexpr std::int64_t most = std::int64_t{1} << 31;
  ensure(!map.changes() || count < most, "the elements of a mapped tensor fit 31 bits");
  const bool rows_aligned =  // else one by one
      map.by_rows || aligned_for_vectors(map.mean, map.inverse_deviation, map.lowest, map.range);
  return {.map = map,
          .channel_stride = FastDivide(order.channel_stride),
          .channels = FastDivide(order.channels),
          .image_stride = FastDivide(order.image_stride),
          .channel_count = static_cast<std::int32_t>(order.channels),
          .by_quads = order.channel_stride == 1 && order.channels % 4 == 0 && count % 4 == 0 &&
                      rows_aligned && aligned_for_vectors(map.weight, map.bias, map.scales)};
}

/// Where the norms of a lane's elements come from. All but the first need QuadMap::by_quads.
enum class NormSource : std::uint8_t {
  Absent,
  Repeated,      // channels repeat after two rows of a lane: a number that divides 64
  Channels,      // 32 or more, read for each row of the lane
  Rows,          // likewise, of a layer norm
  RowLevels,     // levels of rows, and no norm
  LevelledRows,  // both
};

enum class Function : std::uint8_t { Copy, Relu, Silu, Gelu, GeluTanh };

/// The maps that most tensors have, for the lanes of whole tiles: what they are is known to the
/// compiler, so that no branch keeps the work of one row from overlapping with the next one's.
template <NormSource source, Function function>
class LaneMap {
 public:
  __device__ LaneMap(const QuadMap& quads, const Lane& at) : quads_(quads) {
    const std::int64_t first = at.row_begin(0);
    if constexpr (source != NormSource::Absent) {
      const FastDivide::Result place = quads.channels(static_cast<std::int32_t>(first));
      row_ = place.quotient;
      channel_ = place.remainder;
    }
    if constexpr (source == NormSource::Repeated) {
      read(kept_[0]);
      channel_ = (channel_ + 32) & (quads.channel_count - 1);  // a power of two
      read(kept_[1]);
    }
    if constexpr (function == Function::Relu)
      gate_ = __ldg(quads.map.gate + (at.tile * kGroupLanes + at.lane));
  }

  /// Row k of the lane; rows come one after the other.
  __device__ void apply(const Lane& at, int k, float (&quad)[4]) {
    if constexpr (source == NormSource::Repeated) {
      normalise(kept_[k % 2], quad);
    } else if constexpr (source != NormSource::Absent) {
      if constexpr (source == NormSource::RowLevels || source == NormSource::LevelledRows)
        quads_.undo_levels_of(row_, quad);
      if constexpr (source != NormSource::RowLevels) {
        OfChannel norms[4];
        read(norms);
        normalise(norms, quad);
      }
      channel_ += 32;
      if (channel_ >= quads_.channel_count) channel_ -= quads_.channel_count, ++row_;
    }
    if constexpr (function == Function::Relu) {
      const std::uint32_t of_row = __shfl_sync(kAllLanes, gate_, at.lane / 8 * 8 + k);
      const std::uint32_t open = of_row >> (at.lane % 8 * 4);
#pragma unroll
      for (int j = 0; j < 4; ++j) quad[j] = (open & 1u << j) != 0 ? quad[j] : 0.0f;
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      if constexpr (function == Function::Gelu) quad[j] = gelu<Gelu::Erf>(quad[j]);
      if constexpr (function == Function::GeluTanh) quad[j] = gelu<Gelu::Tanh>(quad[j]);
    }
  }

 private:
  using OfChannel = std::conditional_t<function == Function::Silu, NormedSilu, NormCoefficients>;

  __device__ void read(OfChannel (&norms)[4]) const {
    FourNorms plain;
    if constexpr (source == NormSource::Rows || source == NormSource::LevelledRows)
      quads_.read_norms(row_, channel_, plain);
    else
      quads_.read_norms(channel_, plain);
#pragma unroll
    for (int j = 0; j < 4; ++j) norms[j] = OfChannel(plain[j]);
  }

  __device__ static void normalise(const OfChannel (&norms)[4], float (&quad)[4]) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      if constexpr (function == Function::Silu)
        quad[j] = norms[j](quad[j]);
      else
        quad[j] = codec_mapped(quad[j], norms[j], Activation::None);
    }
  }

  const QuadMap& quads_;
  [[maybe_unused]] std::int32_t row_ = 0, channel_ = 0;  // of the next row's first element
  [[maybe_unused]] OfChannel kept_[2][4];                // Repeated: of even and of odd rows
  [[maybe_unused]] std::uint32_t gate_ = 0;  // Relu: for the 32 elements of row lane % 8
};

}  // namespace triaccel::kernels::cuda::groups
