#pragma once

#include <memory>

#include "triaccel/core/codec_registry.h"

namespace triaccel {

/// Registers, once per program, a codec of one byte per element, and returns its number.
inline std::uint8_t byte_codec() {
  struct OneByte final : RegisteredCodec {
    std::string_view name() const override { return "one-byte"; }
    std::int64_t bytes(std::span<const std::int64_t> sizes) const override {
      std::int64_t elements = 1;
      for (const std::int64_t size : sizes) elements *= size;
      return elements;
    }
    double bits() const override { return 8; }
  };
  static const std::uint8_t number = register_codec(std::make_unique<OneByte>());
  return number;
}

}  // namespace triaccel
