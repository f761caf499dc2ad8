#pragma once

#include <ATen/ATen.h>

#include <memory>

#include "triaccel/core/saved_plan.h"
#include "triaccel/saved/activation_codec.h"

namespace triaccel {

/// Values rounded to BF16: a codec as a program would register one.
class RoundingCodec final : public ActivationCodec {
 public:
  std::string_view name() const override { return "rounded"; }
  double bits() const override { return 16; }

  std::int64_t bytes(std::span<const std::int64_t> sizes) const override {
    std::int64_t elements = 1;
    for (const std::int64_t size : sizes) elements *= size;
    return 2 * elements;
  }

  at::Tensor encode(const at::Tensor& values, const EncodeRequest& request) const override {
    const std::int64_t count = bytes(values.sizes());
    at::Tensor encoded = request.buffer ? request.buffer(count, at::kByte)
                                        : at::empty({count}, values.options().dtype(at::kByte));
    encoded.view(at::kBFloat16).as_strided(values.sizes(), values.strides()).copy_(values);
    return encoded;
  }

  at::Tensor decode(const at::Tensor& encoded, at::IntArrayRef sizes, at::IntArrayRef strides,
                    at::ScalarType type, const kernels::DitherKey&) const override {
    return encoded.view(at::kBFloat16).as_strided(sizes, strides).to(type);
  }
};

/// Every tensor by a RoundingCodec, which is registered once per program.
inline SavedPlan rounding_plan() {
  static const std::uint8_t number = register_activation_codec(std::make_unique<RoundingCodec>());
  return {.codec = SavedCodec::Registered, .registered = number};
}

}  // namespace triaccel
