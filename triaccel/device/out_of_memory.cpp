#include "triaccel/device/out_of_memory.h"

#include <ATen/Context.h>

#include <algorithm>
#include <array>

#include "triaccel/base/error.h"
#include "triaccel/device/cpu_memory.h"

namespace triaccel {

bool is_out_of_memory(std::string_view what) {
  constexpr std::array<std::string_view, 6> signs = {
      "_STATUS_ALLOC_FAILED",  // cuBLAS, and cuDNN up to 8
      "ALLOCATION_FAILED",     // CUDNN_STATUS_INTERNAL_ERROR_{HOST,DEVICE}_ALLOCATION_FAILED
      "cudaErrorMemoryAllocation",
      "CUDA error: out of memory",
      "CUDA driver error: out of memory",
      "DefaultCPUAllocator: can't allocate memory"};
  return std::ranges::any_of(
      signs, [&](std::string_view sign) { return what.find(sign) != std::string_view::npos; });
}

/// Passes every other warning on.
struct OneDnnWatch::Warnings : c10::WarningHandler {
  explicit Warnings(c10::WarningHandler& other) : other_(other) {}
  void process(const c10::Warning& warning) override {
    // "mkldnn_matmul failed, switching to BLAS gemm: …"
    if (warning.msg().find(" failed, switching to ") == std::string::npos) other_.process(warning);
  }

 private:
  c10::WarningHandler& other_;
};

OneDnnWatch::OneDnnWatch()
    : was_on_(at::globalContext().userEnabledMkldnn()),
      refusals_(cpu_refusal_count()),
      shown_by_(c10::WarningUtils::get_warning_handler()),
      warnings_(std::make_unique<Warnings>(*shown_by_)) {
  c10::WarningUtils::set_warning_handler(warnings_.get());
}

OneDnnWatch::~OneDnnWatch() {
  c10::WarningUtils::set_warning_handler(shown_by_);
  if (switched_off()) at::globalContext().setUserEnabledMkldnn(true);
}

void OneDnnWatch::check() const {
  if (switched_off()) throw OutOfMemory("CPU memory: too little for a matrix product by oneDNN");
}

// A network that switches it by itself is left alone.
bool OneDnnWatch::switched_off() const {
  return was_on_ && cpu_refusal_count() > refusals_ && !at::globalContext().userEnabledMkldnn();
}

}  // namespace triaccel
