#pragma once

#include <cstdint>

#include "triaccel/base/host_device.h"
#include "triaccel/kernels/common/float_type_math.h"
#include "triaccel/kernels/common/tensor_list.h"

namespace triaccel::kernels {

/// Which elements have their bit set. A NaN has in both: where ReLU's backward meets one, the
/// gradient passes.
enum class MaskTest : std::uint8_t {
  Positive,  // above zero
  NotZero,
};

/// What elements a mask is made from or turned into.
enum class MaskElement : std::uint8_t { Bool, F32, Bf16, F16 };

/// `count` elements of dense memory and a bit for each: 32 neighbours make a word, the first its
/// lowest bit; the bits behind the last are zero. Elements may lie at any address.
struct MaskedArray {
  MaskElement type = MaskElement::F32;
  std::int64_t count = 0;
};

/// The value of elements whose bit is set, if they are not Bool; rounded to their type.
struct MaskValue {
  float value = 1.0f;
  const float* from_memory = nullptr;  // in the kernel's memory; null: `value`
};

/// encode_mask reads the elements and writes a bit for each; decode_mask reads the bits and writes
/// true or the value where they are set, false or zero elsewhere. One element and one bit are moved
/// for each element (F32: 4.125 bytes): bound by memory.
namespace cpu {
void encode_mask(MaskedArray array, const void* elements, MaskTest test, std::uint32_t* words);
void decode_mask(MaskedArray array, const std::uint32_t* words, MaskValue value, void* elements);
}  // namespace cpu
namespace cuda {
void encode_mask(MaskedArray array, const void* elements, MaskTest test, std::uint32_t* words,
                 cudaStream_t stream);
void decode_mask(MaskedArray array, const std::uint32_t* words, MaskValue value, void* elements,
                 cudaStream_t stream);
}  // namespace cuda

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
