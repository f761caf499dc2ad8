#include "triaccel/kernels/common/bias.h"

#include <vector>

#include "triaccel/base/divide_up.h"
#include "triaccel/kernels/common/float_type_math.h"

namespace triaccel::kernels::cpu {
namespace {

/// Below so many elements another thread costs more than it saves.
constexpr std::int64_t kElementsAlone = 1 << 15;

/// Rows that are summed one after the other; few enough for FP32.
constexpr std::int64_t kRunRows = 256;

bool is_large(const BiasedMatrix& shape) { return shape.rows * shape.channels > kElementsAlone; }

template <typename Stored>
void add(const BiasedMatrix& shape, const float* bias, void* matrix) {
  using Word = typename Stored::Word;
#pragma omp parallel for schedule(static) if (is_large(shape))
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    Word* words = static_cast<Word*>(matrix) + row * shape.channels;
#pragma omp simd
    for (std::int64_t c = 0; c < shape.channels; ++c)
      words[c] = Stored::word(Stored::value(words[c]) + bias[c]);
  }
}

template <typename Stored>
void sum_rows(const BiasedMatrix& shape, const void* matrix, float* sums) {
  using Word = typename Stored::Word;
  const std::int64_t runs = divide_up(shape.rows, kRunRows);
  std::vector<float> partial(static_cast<std::size_t>(runs * shape.channels));
#pragma omp parallel for schedule(static) if (is_large(shape))
  for (std::int64_t run = 0; run < runs; ++run) {
    float* into = partial.data() + run * shape.channels;
    for (std::int64_t row = run * kRunRows; row < std::min(shape.rows, (run + 1) * kRunRows);
         ++row) {
      const Word* words = static_cast<const Word*>(matrix) + row * shape.channels;
#pragma omp simd
      for (std::int64_t c = 0; c < shape.channels; ++c) into[c] += Stored::value(words[c]);
    }
  }
  for (std::int64_t c = 0; c < shape.channels; ++c) {
    double sum = 0;
    for (std::int64_t run = 0; run < runs; ++run)
      sum += partial[static_cast<std::size_t>(run * shape.channels + c)];
    sums[c] = static_cast<float>(sum);
  }
}

}  // namespace

void add_bias(const BiasedMatrix& shape, const float* bias, void* matrix) {
  with_stored_type(shape.type, [&]<typename Stored>(Stored) { add<Stored>(shape, bias, matrix); });
}

void bias_gradient(const BiasedMatrix& shape, const void* output_gradient, float* sums) {
  with_stored_type(
      shape.type, [&]<typename Stored>(Stored) { sum_rows<Stored>(shape, output_gradient, sums); });
}

}  // namespace triaccel::kernels::cpu
