#include "triaccel/data/epoch_order.h"

#include <ATen/ops/from_blob.h>

#include "triaccel/core/step_report.h"
#include "triaccel/device/cpu_memory.h"

namespace triaccel {

at::Tensor ids_on_device(std::span<const std::int64_t> ids, c10::Device device) {
  // from_blob requires a mutable pointer, but the view is only read.
  auto* const data = const_cast<std::int64_t*>(ids.data());
  return at::from_blob(data, {static_cast<std::int64_t>(ids.size())}, at::kLong)
      .to(device, at::kLong, /*non_blocking=*/false, /*copy=*/true);
}

Batch gather_unprepared(const Dataset& data, const at::Tensor& ids) {
  const at::Tensor host = ids.cpu().contiguous();
  data.prepare({host.const_data_ptr<std::int64_t>(), static_cast<std::size_t>(host.numel())});
  return data.gather(ids, {});
}

at::Tensor EpochOrder::upcoming(const Sampler& sampler, std::int64_t count) {
  if (epoch_ != sampler.epoch()) {
    MemoryPurposeScope purpose(MemoryPurpose::Data);
    epoch_ = -1;  // until the new order is uploaded
    order_.reset();
    order_ = ids_on_device(sampler.order(), device_);
    epoch_ = sampler.epoch();
  }
  const auto ids = sampler.upcoming(count);
  if (data_ != nullptr)
    data_->prepare(ids, std::span(sampler.order())
                            .subspan(static_cast<std::size_t>(
                                sampler.cursor() + static_cast<std::int64_t>(ids.size()))));
  return order_.narrow(0, sampler.cursor(), static_cast<std::int64_t>(ids.size()));
}

}  // namespace triaccel
