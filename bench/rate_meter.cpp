#include "bench/rate_meter.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "triaccel/base/error.h"
#include "triaccel/base/version.h"
#include "triaccel/device/captured_work.h"
#include "triaccel/device/device_choice.h"

namespace triaccel::bench {
namespace {

/// Two CUDA events around work on the current stream.
class EventPair {
 public:
  EventPair() {
    C10_CUDA_CHECK(cudaEventCreate(&start_));
    C10_CUDA_CHECK(cudaEventCreate(&end_));
  }
  ~EventPair() {
    (void)cudaEventDestroy(start_);
    (void)cudaEventDestroy(end_);
  }
  EventPair(const EventPair&) = delete;
  EventPair& operator=(const EventPair&) = delete;

  double microseconds(const std::function<void()>& work) {
    const cudaStream_t stream = c10::cuda::getCurrentCUDAStream().stream();
    C10_CUDA_CHECK(cudaEventRecord(start_, stream));
    work();
    C10_CUDA_CHECK(cudaEventRecord(end_, stream));
    C10_CUDA_CHECK(cudaEventSynchronize(end_));
    float milliseconds = 0;
    C10_CUDA_CHECK(cudaEventElapsedTime(&milliseconds, start_, end_));
    return 1e3 * static_cast<double>(milliseconds);
  }

 private:
  cudaEvent_t start_ = nullptr;
  cudaEvent_t end_ = nullptr;
};

std::int64_t last_level_cache_bytes(c10::Device device) {
  int bytes = 0;
  C10_CUDA_CHECK(cudaDeviceGetAttribute(&bytes, cudaDevAttrL2CacheSize, device.index()));
  return bytes;
}

}  // namespace

RateMeter::RateMeter(c10::Device device, const RateMeterOptions& options)
    : device_(device),
      options_(options),
      stream_(device),
      cache_bytes_(last_level_cache_bytes(device)) {
  require(options.samples > 0 && options.calls > 0, "kernel_rates", "nothing to measure");
  if (!options.jsonl.empty()) {
    jsonl_.open(options.jsonl);
    require(jsonl_.is_open(), "--jsonl", "cannot write '", options.jsonl, "'");
  }
  std::printf("%s, commit %s\n", device_text(device).c_str(), std::string(build_commit()).c_str());
  std::printf("%-14s %-22s %-26s %10s %10s %9s %7s %11s %7s\n", "family", "kernel", "shape", "us",
              "MB", "GB/s", "share", "torch us", "faster");
}

double RateMeter::microseconds(std::int64_t bytes, const MakeCall& make) {
  // Enough sets of tensors, taken in turn, that none is left in the cache from its last call. Small
  // ones stay there all the same, as they do in a training step.
  const auto sets = static_cast<std::size_t>(std::clamp<std::int64_t>(
      4 * cache_bytes_ / std::max<std::int64_t>(1, bytes), 1, options_.calls));
  std::vector<Call> calls;
  std::vector<std::vector<at::Tensor>> results(sets);
  for (std::size_t i = 0; i < sets; ++i) calls.push_back(make());
  for (const Call& call : calls) call();  // loads modules, lets libraries choose their kernels
  synchronize(device_);
  WorkPool pool;
  CapturedWork captured(pool, [&] {
    for (std::size_t i = 0; i < static_cast<std::size_t>(options_.calls); ++i)
      results[i % sets] = calls[i % sets]();
  });
  results.clear();
  EventPair events;
  std::vector<double> timings;
  for (int i = 0; i < options_.samples; ++i) {
    captured.replay();  // the device is busy when the clock starts, so that no launch is timed
    timings.push_back(events.microseconds([&] { captured.replay(); }) / options_.calls);
  }
  std::ranges::sort(timings);
  return timings[timings.size() / 2];
}

double RateMeter::print(const RateCase& what, const MakeCall& ours, const MakeCall& replaced) {
  const double us = microseconds(what.bytes, ours);
  const double torch_us = options_.torch && replaced ? microseconds(what.bytes, replaced) : 0;
  const double bytes_per_us = static_cast<double>(what.bytes) / us;
  const double share = copy_bytes_per_us_ > 0 ? bytes_per_us / copy_bytes_per_us_ : 1;
  std::printf("%-14s %-22s %-26s %10.2f %10.2f %9.0f %6.0f%%", what.family.c_str(),
              what.kernel.c_str(), what.shape.c_str(), us, 1e-6 * static_cast<double>(what.bytes),
              1e-3 * bytes_per_us, 1e2 * share);
  if (torch_us > 0) std::printf(" %11.2f %6.2fx", torch_us, torch_us / us);
  if (what.operations > 0) std::printf("  %.0f TFLOP/s", 1e-6 * what.operations / us);
  std::printf("\n");
  nlohmann::ordered_json line = {{"family", what.family}, {"kernel", what.kernel},
                                 {"shape", what.shape},   {"us", us},
                                 {"bytes", what.bytes},   {"gb_per_s", 1e-3 * bytes_per_us},
                                 {"share_of_copy", share}};
  if (torch_us > 0) line["torch_us"] = torch_us;
  if (what.operations > 0) line["tflop_per_s"] = 1e-6 * what.operations / us;
  line["device"] = device_text(device_);
  line["commit"] = build_commit();
  if (jsonl_.is_open()) jsonl_ << line.dump() << std::endl;
  return bytes_per_us;
}

void RateMeter::measure(const RateCase& what, const MakeCall& ours, const MakeCall& replaced) {
  try {
    print(what, ours, replaced);
  } catch (const std::exception& error) {
    const std::string reason = error.what();
    std::printf("%-14s %-22s %-26s failed: %s\n", what.family.c_str(), what.kernel.c_str(),
                what.shape.c_str(), reason.substr(0, reason.find('\n')).c_str());
  }
  std::fflush(stdout);
}

void RateMeter::measure_device() {
  constexpr std::int64_t bytes = std::int64_t{1} << 30;
  const at::TensorOptions on_device = at::TensorOptions(at::kBFloat16).device(device_);
  const auto two_tensors = [&](const auto& copy) {
    return [=]() -> Call {
      const at::Tensor from = at::randn({bytes / 2}, on_device), to = at::empty_like(from);
      return [=]() -> std::vector<at::Tensor> {
        copy(to, from);
        return {};
      };
    };
  };
  const auto by_driver = [](const at::Tensor& to, const at::Tensor& from) {
    C10_CUDA_CHECK(cudaMemcpyAsync(to.data_ptr(), from.data_ptr(), from.nbytes(),
                                   cudaMemcpyDeviceToDevice,
                                   c10::cuda::getCurrentCUDAStream().stream()));
  };
  const auto by_torch = [](const at::Tensor& to, const at::Tensor& from) { to.copy_(from); };
  RateCase copy{
      .family = "copy", .kernel = "cudaMemcpyAsync", .shape = "1 GiB", .bytes = 2 * bytes};
  const double driver = print(copy, two_tensors(by_driver), {});
  copy.kernel = "torch copy_";
  copy_bytes_per_us_ = std::max(driver, print(copy, two_tensors(by_torch), {}));

  constexpr std::int64_t n = 8192;
  const double operations = 2.0 * static_cast<double>(n) * static_cast<double>(n) * n;
  measure({.family = "matrix product",
           .kernel = "torch mm, BF16",
           .shape = "8192 x 8192 x 8192",
           .bytes = 3 * n * n * 2,
           .operations = operations},
          [=]() -> Call {
            const at::Tensor a = at::randn({n, n}, on_device), b = at::randn({n, n}, on_device);
            return [=]() -> std::vector<at::Tensor> { return {at::mm(a, b)}; };
          });
}

}  // namespace triaccel::bench
