#include "triaccel/ops/compression/codec_map.h"

#include <ATen/ATen.h>
#include <ATen/TensorGeometry.h>
#include <ATen/core/grad_mode.h>

#include <string_view>

#include "triaccel/base/error.h"
#include "triaccel/core/saved_bytes.h"
#include "triaccel/kernels/compression/channel_levels.h"
#include "triaccel/ops/compression/encoded_tensor.h"
#include "triaccel/ops/tensors/dispatch.h"
#include "triaccel/ops/tensors/tensor_check.h"

namespace triaccel {

std::optional<kernels::ChannelOrder> channel_order(at::IntArrayRef sizes, at::IntArrayRef strides) {
  constexpr std::int64_t most = std::int64_t{1} << 31;
  const std::int64_t count = c10::multiply_integers(sizes);
  if (sizes.size() != 4 || count == 0 || count >= most) return {};
  const std::int64_t image = count / sizes[0];
  if (at::geometry_is_contiguous(sizes, strides))
    return kernels::ChannelOrder{sizes[1], sizes[2] * sizes[3], image};
  if (at::geometry_is_contiguous({sizes[0], sizes[2], sizes[3], sizes[1]},
                                 {strides[0], strides[2], strides[3], strides[1]}))
    return kernels::ChannelOrder{sizes[1], 1, image};
  return {};
}

std::optional<kernels::ChannelOrder> row_order(at::IntArrayRef sizes, at::IntArrayRef strides) {
  constexpr std::int64_t most = std::int64_t{1} << 31;
  const std::int64_t count = c10::multiply_integers(sizes);
  if (sizes.size() < 2 || count == 0 || count >= most ||
      !at::geometry_is_contiguous(sizes, strides))
    return {};
  return kernels::ChannelOrder{sizes.back(), 1, sizes.back()};
}

kernels::CodecMap kernel_map(std::string_view who, const CodecMap& map, at::IntArrayRef sizes,
                             const at::Device& device) {
  kernels::CodecMap found = {
      .by_rows = map.by_rows, .gelu = map.gelu, .activation = map.activation};
  require(
      !map.is_of_rows() || (map.activation == kernels::Activation::None && !map.scales.defined()),
      who, "layer norm and GELU cannot be combined with another activation or scales");
  if (map.lowest.defined()) {
    require(map.by_rows || map.gelu == kernels::Gelu::None, who,
            "levels of channels cannot be combined with GELU");
    const std::int64_t levels =
        map.by_rows ? c10::multiply_integers(sizes) / sizes.back() : sizes[1];
    check_contiguous(who, "lowest", map.lowest, device, at::kFloat, {levels});
    check_contiguous(who, "range", map.range, device, at::kFloat, {levels});
    found.lowest = map.lowest.const_data_ptr<float>();
    found.range = map.range.const_data_ptr<float>();
  }
  if (map.mean.defined()) {
    const std::int64_t channels = map.by_rows ? sizes.back() : sizes[1];
    const std::int64_t statistics =
        map.by_rows ? c10::multiply_integers(sizes) / channels : channels;
    const auto row = [&](std::string_view name, const at::Tensor& constants, std::int64_t count) {
      check_contiguous(who, name, constants, device, at::kFloat, {count});
      return constants.const_data_ptr<float>();
    };
    found.mean = row("mean", map.mean, statistics);
    found.inverse_deviation = row("inverse_deviation", map.inverse_deviation, statistics);
    found.weight = row("weight", map.weight, channels);
    found.bias = row("bias", map.bias, channels);
  }
  if (map.activation == kernels::Activation::Relu) {
    check_contiguous(who, "gate", map.gate, device, at::kInt,
                     {mask_bytes(c10::multiply_integers(sizes)) / 4});
    found.gate = static_cast<const std::uint32_t*>(map.gate.const_data_ptr());
  }
  if (map.scales.defined()) {
    check_contiguous(who, "scales", map.scales, device, at::kFloat, {sizes[0] * sizes[1]});
    found.scales = map.scales.const_data_ptr<float>();
  }
  return found;
}

namespace {

LevelledMap levelled(std::string_view who, const at::Tensor& map,
                     const kernels::ChannelOrder& order, const EncodeBuffer& buffer) {
  const at::NoGradGuard no_gradient;
  const kernels::MapsToLevel maps{
      .type = float_type_of(who, "map", map.scalar_type()), .count = map.numel(), .order = order};
  const at::Tensor levels = allocate_encoded(map, 2 * order.channels, at::kFloat, buffer);
  const auto halves = levels.view({2, order.channels}).unbind();
  LevelledMap made{.values = at::empty_strided(map.sizes(), map.strides(), map.options()),
                   .lowest = halves[0],
                   .range = halves[1]};
  const void* from = map.const_data_ptr();
  void* to = made.values.mutable_data_ptr();
  auto* lowest = made.lowest.mutable_data_ptr<float>();
  auto* range = made.range.mutable_data_ptr<float>();
  dispatch<kernels::cpu::level_channels, kernels::cuda::level_channels>(who, map.device(), maps,
                                                                        from, to, lowest, range);
  return made;
}

}  // namespace

LevelledMap level_channels(const at::Tensor& map, const EncodeBuffer& buffer) {
  constexpr std::string_view who = "level_channels";
  const auto order = channel_order(map.sizes(), map.strides());
  require(order.has_value(), who, "takes [N, C, H, W], dense in that order or with channels last, ",
          "got sizes ", map.sizes(), " and strides ", map.strides());
  return levelled(who, map, *order, buffer);
}

LevelledMap level_rows(const at::Tensor& rows, const EncodeBuffer& buffer) {
  constexpr std::string_view who = "level_rows";
  const auto order = row_order(rows.sizes(), rows.strides());
  require(order.has_value(), who, "takes contiguous rows, got sizes ", rows.sizes(),
          " and strides ", rows.strides());
  // As the channels of one map, whose positions follow each other.
  const std::int64_t columns = order->channels, count = rows.numel();
  return levelled(who, rows, {count / columns, columns, count}, buffer);
}

}  // namespace triaccel
