#include "triaccel/ops/compression/channel_levels.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <string_view>

#include "triaccel/base/error.h"
#include "triaccel/kernels/compression/channel_levels.h"
#include "triaccel/ops/compression/codec_map.h"
#include "triaccel/ops/compression/encoded_tensor.h"
#include "triaccel/ops/tensors/dispatch.h"
#include "triaccel/ops/tensors/tensor_check.h"

namespace triaccel {

LevelledMap level_channels(const at::Tensor& map, const CodeRoom& room) {
  constexpr std::string_view who = "level_channels";
  const auto order = channel_order(map.sizes(), map.strides());
  require(order.has_value(), who, "takes [N, C, H, W], dense in that order or with channels last, ",
          "got sizes ", map.sizes(), " and strides ", map.strides());
  const at::NoGradGuard no_gradient;
  const kernels::MapsToLevel maps{
      .type = float_type_of(who, "map", map.scalar_type()), .count = map.numel(), .order = *order};
  const at::Tensor levels = empty_codes(map, 2 * order->channels, at::kFloat, room);
  const auto halves = levels.view({2, order->channels}).unbind();
  LevelledMap made{.values = at::empty_strided(map.sizes(), map.strides(), map.options()),
                   .lowest = halves[0],
                   .range = halves[1]};
  const void* from = map.const_data_ptr();
  void* to = made.values.mutable_data_ptr();
  auto* lowest = made.lowest.mutable_data_ptr<float>();
  auto* range = made.range.mutable_data_ptr<float>();
  dispatch(
      who, map.device(), [&] { kernels::cpu::level_channels(maps, from, to, lowest, range); },
      [&](cudaStream_t stream) {
        kernels::cuda::level_channels(maps, from, to, lowest, range, stream);
      });
  return made;
}

}  // namespace triaccel
