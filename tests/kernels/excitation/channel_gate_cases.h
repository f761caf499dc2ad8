#pragma once

#include <ATen/ATen.h>

#include <string>
#include <vector>

#include "tests/kernels/common/rounding_oracle.h"
#include "triaccel/base/error.h"
#include "triaccel/kernels/excitation/channel_gate.h"

namespace triaccel::kernels {

/// Maps [image][pixel][channel], gates and offsets [image][channel], all of the maps' type.
struct GateInputs {
  at::Tensor map, factor, gate, offset;
};

inline GateInputs random_gate_inputs(const ChannelMaps& m) {
  const at::ScalarType type = m.type == FloatType::F32   ? at::kFloat
                              : m.type == FloatType::F16 ? at::kHalf
                                                         : at::kBFloat16;
  return {at::randn({m.images, m.pixels, m.channels}).to(type),
          at::randn({m.images, m.pixels, m.channels}).to(type),
          at::rand({m.images, m.channels}).to(type), at::randn({m.images, m.channels}).to(type)};
}

/// Mean and sum of products are [image][channel], the others [image][pixel][channel].
struct GateResults {
  at::Tensor mean, product_sum, gated, shifted, offset_only;
};

/// What a back end gives: sum(PixelSum) and gate(ChannelGate) run it.
template <typename Sum, typename Gate>
GateResults gate_results(const ChannelMaps& m, const GateInputs& in, Sum sum, Gate gate) {
  const auto poisoned = [](const at::Tensor& like) { return at::full_like(like, 12345); };
  GateResults r = {poisoned(in.gate), poisoned(in.gate), poisoned(in.map), poisoned(in.map),
                   poisoned(in.map)};
  const auto divisor = static_cast<float>(m.pixels);
  sum({in.map.data_ptr(), nullptr, r.mean.data_ptr(), divisor});
  sum({in.map.data_ptr(), in.factor.data_ptr(), r.product_sum.data_ptr(), 1});
  gate({in.map.data_ptr(), in.gate.data_ptr(), nullptr, r.gated.data_ptr(), divisor});
  gate(
      {in.map.data_ptr(), in.gate.data_ptr(), in.offset.data_ptr(), r.shifted.data_ptr(), divisor});
  gate({nullptr, nullptr, in.offset.data_ptr(), r.offset_only.data_ptr(), divisor});
  return r;
}

/// In FP64. With `absolute`, the sums of the terms' magnitudes.
inline GateResults gates_by_definition(const ChannelMaps& m, const GateInputs& in, bool absolute) {
  const auto exact = [&](const at::Tensor& tensor) {
    return absolute ? tensor.to(at::kDouble).abs() : tensor.to(at::kDouble);
  };
  const at::Tensor map = exact(in.map), factor = exact(in.factor);
  const at::Tensor gate = exact(in.gate).unsqueeze(1);
  const at::Tensor offset = exact(in.offset).unsqueeze(1) / static_cast<double>(m.pixels);
  return {map.mean(1), (map * factor).sum(1), map * gate, map * gate + offset,
          offset.expand_as(map)};
}

inline std::string described(const ChannelMaps& m) {
  return text(m.images, " images of ", m.pixels, " pixels and ", m.channels, " channels of type ",
              static_cast<int>(m.type));
}

}  // namespace triaccel::kernels
