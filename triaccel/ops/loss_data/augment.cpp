#include "triaccel/ops/loss_data/augment.h"

#include <ATen/ATen.h>

#include "triaccel/base/error.h"
#include "triaccel/ops/tensors/dispatch.h"
#include "triaccel/ops/tensors/tensor_check.h"

namespace triaccel {
namespace {

/// Only where the ids can be read without waiting for a device; elsewhere the kernel answers a
/// wrong id with NaN or -1.
void check_ids(std::string_view who, const at::Tensor& sample_ids, std::int64_t set_size) {
  const std::int64_t* ids = sample_ids.const_data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < sample_ids.numel(); ++i)
    require(ids[i] >= 0 && ids[i] < set_size, who, "sample_ids[", i, "] is ", ids[i],
            ", but the set has ", set_size, " samples");
}

}  // namespace

void augment(at::Tensor& output, const at::Tensor& images, const at::Tensor& sample_ids,
             const at::Tensor& epoch, const at::Tensor& scale, const at::Tensor& shift,
             const kernels::Augmentation& params, const at::Tensor& rows) {
  constexpr std::string_view who = "augment";
  require(images.defined(), who, "images is an undefined tensor");
  const at::Device device = images.device();
  check_contiguous(who, "images", images, device, at::kByte, {-1, -1, -1, -1});
  check_contiguous(who, "sample_ids", sample_ids, device, at::kLong, {-1});
  check_contiguous(who, "epoch", epoch, device, at::kLong, {1});
  check_contiguous(who, "scale", scale, device, at::kFloat, {images.size(1)});
  check_contiguous(who, "shift", shift, device, at::kFloat, {images.size(1)});
  require(params.padding >= 0 && params.padding < (1 << 20), who,
          "padding must be in [0, 2^20), got ", params.padding);
  check_tensor(who, "output", output, device, at::kFloat);
  const std::vector<std::int64_t> shape = {sample_ids.numel(), images.size(1), images.size(2),
                                           images.size(3)};
  require(output.sizes() == at::IntArrayRef(shape), who, "output must have shape ",
          at::IntArrayRef(shape), ", got ", output.sizes());
  const bool channels_last =
      !output.is_contiguous() && output.is_contiguous(at::MemoryFormat::ChannelsLast);
  require(output.is_contiguous() || channels_last, who,
          "output must be contiguous or channels-last");
  if (rows.defined())
    check_contiguous(who, "rows", rows, device, at::kLong, {sample_ids.numel()});
  else if (device.is_cpu())
    check_ids(who, sample_ids, images.size(0));

  const kernels::ImageBatch batch = {
      .images = images.const_data_ptr<std::uint8_t>(),
      .sample_ids = sample_ids.const_data_ptr<std::int64_t>(),
      .rows = rows.defined() ? rows.const_data_ptr<std::int64_t>() : nullptr,
      .epoch = epoch.const_data_ptr<std::int64_t>(),
      .scale = scale.const_data_ptr<float>(),
      .shift = shift.const_data_ptr<float>(),
      .image_count = images.size(0),
      .batch = sample_ids.numel(),
      .channels = images.size(1),
      .height = images.size(2),
      .width = images.size(3)};
  float* pixels = output.mutable_data_ptr<float>();
  dispatch<kernels::cpu::augment, kernels::cuda::augment>(who, device, batch, params, channels_last,
                                                          pixels);
}

void gather_labels(at::Tensor& output, const at::Tensor& labels, const at::Tensor& sample_ids) {
  constexpr std::string_view who = "gather_labels";
  require(labels.defined(), who, "labels is an undefined tensor");
  const at::Device device = labels.device();
  check_contiguous(who, "labels", labels, device, at::kByte, {-1});
  check_contiguous(who, "sample_ids", sample_ids, device, at::kLong, {-1});
  check_contiguous(who, "output", output, device, at::kLong, {sample_ids.numel()});
  if (device.is_cpu()) check_ids(who, sample_ids, labels.numel());
  const auto* from = labels.const_data_ptr<std::uint8_t>();
  const auto* ids = sample_ids.const_data_ptr<std::int64_t>();
  auto* into = output.mutable_data_ptr<std::int64_t>();
  dispatch<kernels::cpu::gather_labels, kernels::cuda::gather_labels>(
      who, device, from, labels.numel(), ids, sample_ids.numel(), into);
}

}  // namespace triaccel
