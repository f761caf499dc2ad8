#include "triaccel/device/memory_gauge.h"

#include <algorithm>

#include "triaccel/device/cpu_memory.h"

namespace triaccel {

MemoryGauge::MemoryGauge(c10::Device device) : on_cuda_(device.is_cuda()) {
  if (!on_cuda_) install_cpu_memory();
}

MemoryReport MemoryGauge::read() const {
  if (!on_cuda_) return read_cpu_memory();
  MemoryReport report = read_cuda_memory();
  report.peak_by_purpose = noted_;
  // Whatever no purpose claims of the peak is workspace: algorithm buffers and temporaries.
  std::int64_t claimed = 0;
  for (std::int64_t bytes : noted_) claimed += bytes;
  auto& workspace = report.peak_by_purpose[static_cast<std::size_t>(MemoryPurpose::Workspace)];
  workspace += std::max<std::int64_t>(0, report.peak - claimed);
  return report;
}

void MemoryGauge::reset_peak() { on_cuda_ ? reset_cuda_memory_peak() : reset_cpu_memory_peak(); }

void MemoryGauge::set_limit(std::int64_t bytes) {
  on_cuda_ ? limit_cuda_memory(bytes) : limit_cpu_memory(bytes);
}

std::int64_t MemoryGauge::used() const {
  return on_cuda_ ? read_cuda_memory().used : read_cpu_memory().used;
}

void MemoryGauge::note(MemoryPurpose purpose, std::int64_t bytes) {
  if (!on_cuda_) return;
  auto& held = noted_[static_cast<std::size_t>(purpose)];
  held = std::max(held, bytes);
}

void MemoryGauge::release_cache() {
  if (on_cuda_) release_cuda_cache();
}

}  // namespace triaccel
