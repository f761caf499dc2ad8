#include "triaccel/saved/saved_sampler.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

namespace triaccel {
namespace {

constexpr std::int64_t kCrop = 56;  // pixels per side: whole blocks of 8 and of 7

at::Tensor cropped(const at::Tensor& map, std::int64_t dimension) {
  const std::int64_t extent = map.size(dimension);
  if (extent <= kCrop) return map;
  const std::int64_t first = (extent / kCrop - 1) / 2 * kCrop;
  return map.narrow(dimension, first, kCrop);
}

/// The first `count` channels or a little less: what is encoded together stays together.
at::Tensor first_channels(const at::Tensor& tensor, std::int64_t dimension, std::int64_t count) {
  if (count >= tensor.size(dimension)) return tensor;
  if (count >= 8) count -= count % (count >= 32 ? 32 : 8);
  return tensor.narrow(dimension, 0, std::max<std::int64_t>(1, count));
}

}  // namespace

at::Tensor sample_of(const at::Tensor& tensor, std::int64_t most) {
  if (tensor.dim() == 0 || tensor.numel() <= most) return tensor;
  at::Tensor part = tensor;
  if (part.dim() == 4) part = cropped(cropped(part, 2), 3);
  const auto image = [&] { return part.numel() / part.size(0); };
  if (part.dim() > 1 && image() > most) {
    const std::int64_t channels = part.dim() == 4 ? 1 : part.dim() - 1;
    const std::int64_t one = std::max<std::int64_t>(1, image() / part.size(channels));
    part = first_channels(part, channels, most / one);
  }
  const std::int64_t images = std::clamp<std::int64_t>(most / image(), 1, part.size(0));
  const std::int64_t apart = part.size(0) / images;
  return part.slice(0, 0, images * apart, apart);
}

std::function<at::Tensor()> SavedSampler::keep(const at::Tensor& tensor) {
  const std::int64_t entry = next_++;
  if (tensor.is_floating_point() && tensor.numel() > 0) {
    const at::Tensor part = sample_of(tensor).to(at::kCPU, at::kFloat).contiguous();
    const auto* values = part.const_data_ptr<float>();
    samples_.push_back(
        {.entry = entry, .sizes = part.sizes().vec(), .values = {values, values + part.numel()}});
  }
  return keeper_.keep(tensor);
}

}  // namespace triaccel
