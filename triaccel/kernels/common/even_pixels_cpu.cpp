#include "triaccel/kernels/common/even_pixels.h"

#include <cstddef>
#include <cstring>

namespace triaccel::kernels::cpu {
namespace {

using Index = EvenPixelIndex<std::int64_t, PlainDivide>;

constexpr std::int64_t kBytesAlone = 1 << 18;  // below, another thread costs more than it saves

}  // namespace

void gather_even_pixels(const EvenPixels& pixels, std::int64_t pixel_bytes, const void* all,
                        void* even) {
  if (pixels.all() == 0) return;
  const Index index(pixels);
  const auto* const from = static_cast<const std::byte*>(all);
  auto* const to = static_cast<std::byte*>(even);
#pragma omp parallel for schedule(static) if (pixels.even() * pixel_bytes > kBytesAlone)
  for (std::int64_t i = 0; i < pixels.even(); ++i)
    std::memcpy(to + i * pixel_bytes, from + index.all_of(i) * pixel_bytes,
                static_cast<std::size_t>(pixel_bytes));
}

void scatter_even_pixels(const EvenPixels& pixels, std::int64_t pixel_bytes, const void* even,
                         void* all) {
  if (pixels.all() == 0) return;
  const Index index(pixels);
  const auto* const from = static_cast<const std::byte*>(even);
  auto* const to = static_cast<std::byte*>(all);
  const auto size = static_cast<std::size_t>(pixel_bytes);
#pragma omp parallel for schedule(static) if (pixels.all() * pixel_bytes > kBytesAlone)
  for (std::int64_t i = 0; i < pixels.all(); ++i) {
    const std::int64_t source = index.even_of(i);
    if (source < 0)
      std::memset(to + i * pixel_bytes, 0, size);
    else
      std::memcpy(to + i * pixel_bytes, from + source * pixel_bytes, size);
  }
}

}  // namespace triaccel::kernels::cpu
