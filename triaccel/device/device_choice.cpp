#include "triaccel/device/device_choice.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <sstream>
#include <vector>

#include "triaccel/base/error.h"
#include "triaccel/device/cuda_memory.h"

namespace triaccel {
namespace {

/// The processor's name as /proc/cpuinfo gives it; Arm kernels give none, hence the fallback.
std::string cpu_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.starts_with("model name")) return line.substr(line.find(": ") + 2);
#if defined(__aarch64__)
  return "Arm CPU";
#else
  return "CPU";
#endif
}

std::vector<std::string> read_cpu_features() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (!line.starts_with("flags") && !line.starts_with("Features")) continue;
    std::istringstream features(line);
    return {std::istream_iterator<std::string>(features), {}};
  }
  return {};
}

/// Whether one of the words stands among the CPU's features.
bool cpu_has(std::initializer_list<const char*> words) {
  static const std::vector<std::string> features = read_cpu_features();
  return std::ranges::any_of(
      words, [](const char* word) { return std::ranges::find(features, word) != features.end(); });
}

}  // namespace

c10::Device choose_device(std::string_view name) {
  if (name == "cpu") return c10::Device(c10::kCPU);
  if (name == "auto") return c10::Device(cuda_available() ? c10::kCUDA : c10::kCPU, 0);
  require(name == "cuda", "--device", "unknown device '", name, "'; use auto, cpu or cuda");
  require(cuda_available(), "--device",
          "no usable CUDA device: see 'triaccel doctor', or train with --device cpu");
  return c10::Device(c10::kCUDA, 0);
}

std::string device_text(c10::Device device) {
  if (device.is_cuda()) return cuda_device_text();
  const int threads = at::get_num_threads();
  return text(cpu_name(), ", ", threads, threads == 1 ? " thread" : " threads");
}

std::int64_t device_total_bytes(c10::Device device) {
  if (device.is_cuda()) return cuda_total_bytes();
  const std::int64_t machine =
      static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  std::int64_t container = 0;  // "max" when there is no limit, which reads as no number
  return std::ifstream("/sys/fs/cgroup/memory.max") >> container ? std::min(machine, container)
                                                                 : machine;
}

std::int64_t device_free_bytes(c10::Device device) {
  if (device.is_cuda()) return cuda_free_bytes();
  std::int64_t available = 0;
  std::ifstream info("/proc/meminfo");
  for (std::string word; info >> word;)
    if (word == "MemAvailable:" && info >> available) break;
  return std::min(available * 1024, device_total_bytes(device));
}

void synchronize(c10::Device device) {
  if (device.is_cuda()) synchronize_cuda();
}

void set_threads(int threads) {
  if (threads > 0) at::set_num_threads(threads);
}

void set_arithmetic(bool deterministic) {
  // cuBLAS reads this when it starts. It repeats itself only with a workspace of its own; otherwise
  // each of its handles (one per thread and stream) gets 1 MiB, where libtorch would reserve 32.
  setenv("CUBLAS_WORKSPACE_CONFIG", deterministic ? ":4096:8" : ":896:1:16:8", /*overwrite=*/0);
  at::Context& context = at::globalContext();
  context.setAllowTF32CuDNN(false);
  context.setAllowTF32CuBLAS(false);
  context.setDeterministicAlgorithms(deterministic, /*warn_only=*/deterministic);
  context.setDeterministicFillUninitializedMemory(false);
  context.setDeterministicCuDNN(deterministic);
  context.setBenchmarkCuDNN(false);
}

std::string missing_hardware(Precision precision, c10::Device device) {
  if (precision == Precision::Fp32) return "";
  if (device.is_cuda())
    return precision == Precision::Bf16 && cuda_capability() < 80 ? "needs compute capability 8.0"
                                                                  : "";
  if (precision == Precision::Bf16)
    return cpu_has({"avx512_bf16", "amx_bf16", "bf16"})
               ? ""
               : "the CPU has no BF16 instructions: values are rounded and computed in FP32";
  return cpu_has({"avx512_fp16", "amx_fp16", "asimdhp"})
             ? ""
             : "the CPU has no FP16 instructions: values are rounded and computed in FP32";
}

}  // namespace triaccel
