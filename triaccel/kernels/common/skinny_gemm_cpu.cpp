#include "triaccel/kernels/common/skinny_gemm.h"

#include <algorithm>
#include <vector>

#include "triaccel/kernels/common/float_type_math.h"

namespace triaccel::kernels::cpu {
namespace {

/// Below so many multiplications another thread costs more than it saves.
constexpr std::int64_t kMultipliedAlone = 1 << 15;

bool is_large_product(const SkinnyGemm& shape) {
  return shape.rows * shape.features * shape.outputs > kMultipliedAlone;
}

template <typename Stored>
float dot(const typename Stored::Word* a, const typename Stored::Word* b, std::int64_t count) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < count; ++i) sum += Stored::value(a[i]) * Stored::value(b[i]);
  return sum;
}

template <typename Stored>
void multiply(const SkinnyGemm& shape, const typename Stored::Word* input,
              const typename Stored::Word* weight, const float* bias,
              typename Stored::Word* output) {
#pragma omp parallel for schedule(static) if (is_large_product(shape))
  for (std::int64_t row = 0; row < shape.rows; ++row)
    for (std::int64_t o = 0; o < shape.outputs; ++o) {
      const float sum =
          dot<Stored>(input + row * shape.features, weight + o * shape.features, shape.features);
      output[row * shape.outputs + o] = Stored::word(bias != nullptr ? sum + bias[o] : sum);
    }
}

template <typename Stored>
void multiply_back(const SkinnyGemm& shape, const typename Stored::Word* output_gradient,
                   const typename Stored::Word* weight, typename Stored::Word* input_gradient) {
#pragma omp parallel for schedule(static) if (is_large_product(shape))
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    std::vector<float> sums(static_cast<std::size_t>(shape.features));
    for (std::int64_t o = 0; o < shape.outputs; ++o) {
      const float factor = Stored::value(output_gradient[row * shape.outputs + o]);
      const auto* weights = weight + o * shape.features;
#pragma omp simd
      for (std::int64_t i = 0; i < shape.features; ++i)
        sums[static_cast<std::size_t>(i)] += factor * Stored::value(weights[i]);
    }
    std::transform(sums.begin(), sums.end(), input_gradient + row * shape.features, Stored::word);
  }
}

}  // namespace

void skinny_gemm(const SkinnyGemm& shape, const void* input, const void* weight, const float* bias,
                 void* output) {
  with_stored_type(shape.type, [&]<typename Stored>(Stored) {
    using Word = typename Stored::Word;
    multiply<Stored>(shape, static_cast<const Word*>(input), static_cast<const Word*>(weight), bias,
                     static_cast<Word*>(output));
  });
}

void skinny_input_gradient(const SkinnyGemm& shape, const void* output_gradient, const void* weight,
                           void* input_gradient) {
  with_stored_type(shape.type, [&]<typename Stored>(Stored) {
    using Word = typename Stored::Word;
    multiply_back<Stored>(shape, static_cast<const Word*>(output_gradient),
                          static_cast<const Word*>(weight), static_cast<Word*>(input_gradient));
  });
}

}  // namespace triaccel::kernels::cpu
