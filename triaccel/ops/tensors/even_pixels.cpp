#include "triaccel/ops/tensors/even_pixels.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <string_view>

#include "triaccel/base/error.h"
#include "triaccel/kernels/common/even_pixels.h"
#include "triaccel/ops/tensors/dispatch.h"

namespace triaccel {
namespace {

constexpr std::int64_t kPackBytes = 16;

std::int64_t pixel_bytes(const at::Tensor& map) {
  return map.size(1) * static_cast<std::int64_t>(map.element_size());
}

kernels::EvenPixels pixels_of(at::IntArrayRef sizes) {
  return {.samples = sizes[0], .height = sizes[2], .width = sizes[3]};
}

std::vector<std::int64_t> even_sizes(at::IntArrayRef sizes) {
  const kernels::EvenPixels pixels = pixels_of(sizes);
  return {sizes[0], sizes[1], pixels.half_height(), pixels.half_width()};
}

at::Tensor empty_map(at::IntArrayRef sizes, const at::Tensor& like) {
  return at::empty(sizes, like.options(), at::MemoryFormat::ChannelsLast);
}

}  // namespace

bool takes_even_pixels(const at::Tensor& map) {
  constexpr std::int64_t most_packs = std::int64_t{1} << 31;
  return map.defined() && map.layout() == at::kStrided && map.dim() == 4 &&
         (map.is_cpu() || map.is_cuda()) && map.is_contiguous(at::MemoryFormat::ChannelsLast) &&
         pixel_bytes(map) % kPackBytes == 0 &&
         static_cast<std::int64_t>(map.nbytes()) / kPackBytes < most_packs &&
         reinterpret_cast<std::uintptr_t>(map.const_data_ptr()) % kPackBytes == 0;
}

at::Tensor even_pixels(const at::Tensor& map) {
  constexpr std::string_view who = "even_pixels";
  require(takes_even_pixels(map), who, "no kernel for this map; check takes_even_pixels() first");
  const at::NoGradGuard no_gradient;
  at::Tensor even = empty_map(even_sizes(map.sizes()), map);
  const kernels::EvenPixels pixels = pixels_of(map.sizes());
  const void* from = map.const_data_ptr();
  void* to = even.mutable_data_ptr();
  dispatch<kernels::cpu::gather_even_pixels, kernels::cuda::gather_even_pixels>(
      who, map.device(), pixels, pixel_bytes(map), from, to);
  return even;
}

at::Tensor scatter_even_pixels(const at::Tensor& even, at::IntArrayRef sizes) {
  constexpr std::string_view who = "scatter_even_pixels";
  require(takes_even_pixels(even), who,
          "no kernel for these pixels; check takes_even_pixels() first");
  require(sizes.size() == 4 && even.sizes() == at::IntArrayRef(even_sizes(sizes)), who, "pixels ",
          even.sizes(), " are not the even ones of a map ", sizes);
  const at::NoGradGuard no_gradient;
  at::Tensor map = empty_map(sizes, even);
  require(takes_even_pixels(map), who, "a map ", sizes, " is too large");
  const kernels::EvenPixels pixels = pixels_of(sizes);
  const void* from = even.const_data_ptr();
  void* to = map.mutable_data_ptr();
  dispatch<kernels::cpu::scatter_even_pixels, kernels::cuda::scatter_even_pixels>(
      who, map.device(), pixels, pixel_bytes(map), from, to);
  return map;
}

}  // namespace triaccel
