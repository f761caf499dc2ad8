#pragma once

#include <cstdint>
#include <string_view>

namespace triaccel {

/// The number format a layer computes in.
enum class Precision { Fp32, Bf16, Fp16, Int8 };

constexpr int bytes_per_element(Precision p) {
  return p == Precision::Fp32 ? 4 : p == Precision::Int8 ? 1 : 2;
}

constexpr std::string_view name_of(Precision p) {
  constexpr std::string_view kNames[] = {"fp32", "bf16", "fp16", "int8"};
  return kNames[static_cast<std::size_t>(p)];
}

/// The type of a stored element: what files and states speak of, without torch.
enum class ElementType { Bool, U8, I8, I16, I32, I64, F16, BF16, F32, F64 };

constexpr std::int64_t size_of(ElementType type) {
  constexpr std::int64_t kSizes[] = {1, 1, 1, 2, 4, 8, 2, 2, 4, 8};
  return kSizes[static_cast<std::size_t>(type)];
}

/// The name the safetensors format uses.
constexpr std::string_view name_of(ElementType type) {
  constexpr std::string_view kNames[] = {"BOOL", "U8",  "I8",   "I16", "I32",
                                         "I64",  "F16", "BF16", "F32", "F64"};
  return kNames[static_cast<std::size_t>(type)];
}

}  // namespace triaccel
