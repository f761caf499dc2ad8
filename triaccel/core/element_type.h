#pragma once

#include <cstdint>
#include <string_view>

namespace triaccel {

/// The type of a stored element: what files and states speak of, without torch.
enum class ElementType { Bool, U8, I8, I16, I32, I64, F16, BF16, F32, F64 };

constexpr std::int64_t size_of(ElementType type) {
  switch (type) {
    case ElementType::Bool:
    case ElementType::U8:
    case ElementType::I8:
      return 1;
    case ElementType::I16:
    case ElementType::F16:
    case ElementType::BF16:
      return 2;
    case ElementType::I32:
    case ElementType::F32:
      return 4;
    case ElementType::I64:
    case ElementType::F64:
      return 8;
  }
  return 0;
}

/// The name the safetensors format uses.
constexpr std::string_view name_of(ElementType type) {
  switch (type) {
    case ElementType::Bool:
      return "BOOL";
    case ElementType::U8:
      return "U8";
    case ElementType::I8:
      return "I8";
    case ElementType::I16:
      return "I16";
    case ElementType::I32:
      return "I32";
    case ElementType::I64:
      return "I64";
    case ElementType::F16:
      return "F16";
    case ElementType::BF16:
      return "BF16";
    case ElementType::F32:
      return "F32";
    case ElementType::F64:
      return "F64";
  }
  return "";
}

}  // namespace triaccel
