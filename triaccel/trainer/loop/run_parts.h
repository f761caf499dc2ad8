#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "triaccel/data/load_data.h"
#include "triaccel/device/memory_gauge.h"
#include "triaccel/device/side_stream.h"
#include "triaccel/models/network.h"
#include "triaccel/step/step_runner.h"
#include "triaccel/trainer/config/method.h"
#include "triaccel/trainer/config/run_config.h"
#include "triaccel/trainer/loop/own_task.h"

namespace triaccel {

/// The device a run uses, with threads, arithmetic and budget set as its configuration says.
struct RunDevice {
  explicit RunDevice(const RunConfig& config);
  ~RunDevice();  // lifts the budget: it belongs to the run, not to the process
  RunDevice(const RunDevice&) = delete;
  RunDevice& operator=(const RunDevice&) = delete;

  c10::Device device;
  WorkStream stream;
  std::int64_t budget_bytes;  // 0: none
  MemoryGauge gauge;
};

/// No budget for this scope; afterwards peaks count from what is then in use.
class [[nodiscard]] BudgetLifted {
 public:
  explicit BudgetLifted(RunDevice& on) : on_(on) { on_.gauge.set_limit(0); }
  ~BudgetLifted() {
    if (on_.budget_bytes > 0) on_.gauge.release_cache();
    on_.gauge.set_limit(on_.budget_bytes);
    on_.gauge.reset_peak();
  }
  BudgetLifted(const BudgetLifted&) = delete;
  BudgetLifted& operator=(const BudgetLifted&) = delete;

 private:
  RunDevice& on_;
};

/// The 16-bit formats that layers may be given on a device. A CPU stores both and computes in FP32
/// what it has no instructions for; a GPU without BF16 units uses FP16 in its place.
struct DeviceFormats {
  bool bf16 = true;
  bool fp16 = true;
};
DeviceFormats formats_on(c10::Device device);

/// What a run is made of, built from its configuration. Not movable: the runner keeps a reference
/// to the gauge.
struct RunParts {
  /// A built-in model, or the user's own network when one is given; in the device's formats, or as
  /// if it had those given. Throws OutOfMemory when not even weights and data fit the budget.
  explicit RunParts(const RunConfig& config, std::optional<Network> own = {},
                    std::optional<DeviceFormats> as_if = {}, OwnTask task = {},
                    UnderBudget under_budget = UnderBudget::PlanMemory);
  RunParts(const RunParts&) = delete;
  RunParts& operator=(const RunParts&) = delete;

  /// Replaces the runner by one for a configuration that differs from the first one in how memory
  /// is used: optimizer state, activations, weight casts and graphs.
  void make_runner(const RunConfig& of);

  /// Tells the gauge what data, weights and optimizer state take.
  void note_memory();

  RunConfig config;  // as it is followed: what does not fit its budget becomes smaller
  RunDevice on;
  Method method;
  DeviceFormats formats;
  bool channels_last;
  OwnTask task;  // without data sets: the configuration's
  LoadedData data;
  Network network;
  std::string kernels;  // which code computes which layer, as RunConfig::Control::kernels has it
  std::unique_ptr<StepRunner> runner;
  StepPlan plan;                     // the first
  std::int64_t predicted_bytes = 0;  // peak of its steps, where there is a budget
  std::int64_t planned_pass = 0;     // samples: planned for the budget, or asked for with it

 private:
  void set_first_plan();
};

/// Makes the runner of a run with a budget. Where its steps do not fit as they are, it plans its
/// memory: smaller passes and whatever else makes the fastest steps that fit, lossy means only
/// where the configuration allows them. What it chose is in parts.config, in parts.plan and in the
/// sentence that it returns, "" for nothing. OutOfMemory, naming the least budget, where nothing
/// fits.
std::string fit_memory(RunParts& parts);

/// What a configuration says about layers trained by a zeroth-order estimate.
ZerothOrderOptions zeroth_order_options(const RunConfig& config);

/// The data set a configuration names, on the device.
LoadedData load_data_for(const RunConfig& config, const RunDevice& on, bool channels_last);

/// The network a configuration names, for data of that shape, on the device, with its initial
/// weights: fresh from the seed, or from config.model.init_from. A replaced head is told in
/// `notices`.
Network make_network_for(const RunConfig& config, const DataShape& shape, const RunDevice& on,
                         bool channels_last, std::vector<std::string>* notices = nullptr);

/// Whether images and weights are best kept channels-last: what `memory_format` says, or for
/// "auto" what is fastest on this kind of device.
bool wants_channels_last(const RunConfig& config, c10::Device device);

}  // namespace triaccel
