#pragma once

#include <cstdint>

#include "triaccel/base/host_device.h"
#include "triaccel/kernels/common/float_type_math.h"
#include "triaccel/kernels/compression/masks/bit_mask_codec.h"

namespace triaccel::kernels {

/// One kind of element that masks are made from and turned into.
template <typename Stored>
struct MaskedFloat {
  using Word = typename Stored::Word;
  /// Negated comparisons: a NaN is neither zero nor below it.
  TRIACCEL_HOST_DEVICE static bool is_set(Word word, MaskTest test) {
    const float value = Stored::value(word);
    return test == MaskTest::Positive ? !(value <= 0.0f) : !(value == 0.0f);
  }
  TRIACCEL_HOST_DEVICE static Word rounded(float value) { return Stored::word(value); }
  TRIACCEL_HOST_DEVICE static Word set_word(MaskValue value) {
    return rounded(value.from_memory == nullptr ? value.value : *value.from_memory);
  }
};

struct MaskedBool {
  using Word = std::uint8_t;
  TRIACCEL_HOST_DEVICE static bool is_set(Word word, MaskTest) { return word != 0; }
  TRIACCEL_HOST_DEVICE static Word rounded(float value) { return value != 0.0f; }
  TRIACCEL_HOST_DEVICE static Word set_word(MaskValue) { return 1; }
};

/// Calls body(element) for the run-time type.
template <typename Body>
void with_mask_element(MaskElement type, Body body) {
  switch (type) {
    case MaskElement::Bool:
      return body(MaskedBool{});
    case MaskElement::F32:
      return body(MaskedFloat<StoredAs<FloatType::F32>>{});
    case MaskElement::Bf16:
      return body(MaskedFloat<StoredAs<FloatType::Bf16>>{});
    case MaskElement::F16:
      return body(MaskedFloat<StoredAs<FloatType::F16>>{});
  }
}

}  // namespace triaccel::kernels
