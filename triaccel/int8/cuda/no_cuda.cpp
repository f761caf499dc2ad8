#include "triaccel/base/error.h"
#include "triaccel/int8/cuda/device_steps.h"

// Replaces device_steps.cu in builds without CUDA.
namespace triaccel::int8::cuda {
namespace {

[[noreturn]] void no_cuda() {
  throw UsageError("[--device] this build has no CUDA support; configure with -DTRIACCEL_CUDA=ON");
}

}  // namespace

bool device_steps_built() { return false; }

DeviceSteps::DeviceSteps(const Network&, std::int32_t, const StepOptions&, std::int32_t) {
  no_cuda();
}
void DeviceSteps::place(void*) { no_cuda(); }
void DeviceSteps::upload(const State&, cudaStream_t) { no_cuda(); }
void DeviceSteps::download(State&, cudaStream_t) const { no_cuda(); }
void DeviceSteps::set_rates(std::int32_t, std::int32_t, cudaStream_t) { no_cuda(); }
void DeviceSteps::enqueue(std::int32_t, cudaStream_t) const { no_cuda(); }
StepReport DeviceSteps::report(cudaStream_t) const { no_cuda(); }

}  // namespace triaccel::int8::cuda
