#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/step/gpu_step.h"
#include "triaccel/base/error.h"
#include "triaccel/device/cuda_memory.h"
#include "triaccel/device/device_choice.h"

namespace triaccel {
namespace {

constexpr std::int64_t kPage = 2 << 20;
constexpr std::int64_t kLimits = 32;      // that are tried up to what steps took without one
constexpr std::int64_t kLeastFaults = 8;  // in two steps

/// A way to need less memory.
struct Means {
  std::string name;
  std::int64_t pass;  // of steps of 256 samples
  StepRunnerOptions options;
};

std::vector<Means> every_means() {
  std::vector<Means> all;
  for (const bool graphs : {false, true}) {
    const std::string how = graphs ? "captured" : "eager";
    const StepRunnerOptions plain{.layers = LayerOptions{}, .graphs = graphs};
    all.push_back({how + "_one_pass", 256, plain});  // captured: updates inside backward
    all.push_back({how + "_sums", 64, plain});
    StepRunnerOptions options = plain;
    options.layers->recompute_norms = true;
    all.push_back({how + "_recomputed_norms", 64, options});
    options = plain;
    options.layers->recompute_segments = 1;
    all.push_back({how + "_recomputed_segments", 64, options});
    options = plain;
    options.layers->copy_weights = false;
    all.push_back({how + "_casts_by_layer", 64, options});
    options = plain;
    options.saved = SavedStoreOptions{.exact = true};
    all.push_back({how + "_offloaded", 64, options});
    options = plain;
    options.optimizer.state = StateFormat::Fp8;
    all.push_back({how + "_state_in_8_bits", 64, options});
    options = plain;
    options.optimizer.state = StateFormat::Host;
    all.push_back({how + "_state_in_host_memory", 64, options});
  }
  return all;
}

class MemoryFaultsOnCuda : public GpuStepTest<Means> {};

/// Which tensors differ, and by how much of their norm.
std::string differences(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  std::string found;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    const at::Tensor x = a[i].to(at::kDouble), y = b[i].to(at::kDouble);
    const double share = (x - y).norm().item<double>() / x.norm().item<double>();
    if (share != 0) found += "tensor " + std::to_string(i) + ": " + std::to_string(share) + "\n";
  }
  return found;
}

/// Captured steps and cached pages go; what the runner keeps stays.
void forget_captured(GpuStep& bench) {
  if (GraphCache* graphs = bench.runner->graphs(); graphs != nullptr) graphs->clear();
  bench.gauge.release_cache();
}

// A limit that rises page by page, or in larger steps: each time another allocation is the first to
// fail. A step that fails changes nothing, and the one that fits trains as if none had failed. With
// little memory libtorch may choose another algorithm for a convolution, whose bits differ, and
// keeps that choice: the undisturbed steps come after, and are captured with the same algorithms.
TEST_P(MemoryFaultsOnCuda, LeaveNothingBehind) {
  const Means& means = GetParam();
  const ModelOptions model{.name = "resnet18", .stem = "cifar"};
  const auto make = [&] { return GpuStep(model, means.options, Precision::Bf16); };
  GpuStep undisturbed = make(), bench = make();
  undisturbed.run(256, means.pass);
  forget_captured(undisturbed);
  bench.gauge.reset_peak();
  bench.run(256, means.pass);
  const std::int64_t peak = bench.gauge.read().reserved;
  std::int64_t refused = 0;
  for (int step = 0; step < 2; ++step) {
    const auto before = bench.state();
    forget_captured(bench);
    bench.gauge.reset_peak();
    const std::int64_t least = bench.gauge.read().reserved;
    const std::int64_t rise = std::max(kPage, (peak - least) / kLimits);
    for (std::int64_t limit = least;; limit += rise) {
      bench.gauge.set_limit(limit);
      try {
        bench.run(256, means.pass);
        break;
      } catch (const OutOfMemory&) {
        ++refused;
        bench.gauge.set_limit(0);
        ASSERT_TRUE(same_bytes(before, bench.state())) << "in " << (limit >> 20) << " MiB";
      }
    }
    bench.gauge.set_limit(0);
    undisturbed.run(256, means.pass);
    const auto wanted = undisturbed.state(), found = bench.state();
    ASSERT_TRUE(same_bytes(wanted, found)) << differences(wanted, found);
    forget_captured(undisturbed);
  }
  EXPECT_GE(refused, kLeastFaults);
}

INSTANTIATE_TEST_SUITE_P(Means, MemoryFaultsOnCuda, testing::ValuesIn(every_means()),
                         [](const auto& means) { return means.param.name; });

}  // namespace
}  // namespace triaccel
