#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "triaccel/base/byte_size.h"
#include "triaccel/base/error.h"
#include "triaccel/device/out_of_memory.h"
#include "triaccel/policies/memory/least_limit.h"
#include "triaccel/trainer/loop/memory_census.h"
#include "triaccel/trainer/loop/run_parts.h"

namespace triaccel {
namespace {

// Samples of the largest pass that is measured: a CPU takes its time for more.
constexpr std::int64_t kLargestOnGpu = 32, kLargestOnCpu = 8;

/// Steps are measured in less than the budget.
ScopedLimit limited_to_planned_share(RunDevice& on) {
  return {on.gauge, planned_share(on.budget_bytes)};
}

bool move_data_to_host(RunParts& parts) {
  if (!parts.on.device.is_cuda() || parts.config.data.placement != DataPlacement::Auto ||
      parts.data.train->bytes() == 0)
    return false;
  const std::int64_t before = parts.data.train->bytes();
  const DataPlace host(parts.on.device, /*host=*/true);
  try {
    catching_out_of_memory([&] {
      parts.data.train->move_to(host);
      if (parts.data.test != parts.data.train) parts.data.test->move_to(host);
    });
  } catch (const OutOfMemory&) {  // of the host: then they stay
  }
  return parts.data.train->bytes() < before;
}

std::string share_text(double share) {
  return share < 1 ? text(std::lround(100 * share), " % of ") : "";
}

std::string means_text(const MemoryPlan& plan, const RunConfig& before) {
  const RunConfig after = with_memory_means(before, plan);
  std::string said =
      text(plan.pass_size, plan.pass_size == 1 ? " sample" : " samples", " per forward pass");
  const auto add = [&](bool changed, const char* what) {
    if (changed) said += text(", ", what);
  };
  add(plan.pass.eager, "no CUDA graphs");
  add(plan.pass.casts_by_layer, "weights rounded to 16 bits layer by layer");
  add(plan.state_storage == StateStorage::EightBits, "optimizer state in 8 bits");
  add(plan.state_storage == StateStorage::Host, "optimizer state in host memory");
  add(before.activations.recompute_norms != after.activations.recompute_norms,
      "outputs of batch norms recomputed");
  if (before.activations.recompute_segments != after.activations.recompute_segments)
    said += text(", ", share_text(plan.pass.recompute_segments), "activations recomputed");
  if (before.activations.keep != after.activations.keep)
    said += text(", ", share_text(plan.pass.offload_share), "activations ",
                 after.activations.keep.name());
  return said;
}

/// The best plan whose steps fit, measured.
std::optional<MemoryPlan> find_plan(RunParts& parts, std::int64_t largest) {
  const ScopedLimit share = limited_to_planned_share(parts.on);
  const std::int64_t allowed = planned_share(parts.on.budget_bytes);
  // What looks best may not fit when it is measured: then all ways are looked at.
  for (const std::int64_t best_in : {allowed, std::int64_t{0}}) {
    const MemoryCensus census = take_memory_census(parts, largest, best_in);
    const auto found = best_plan(parts, memory_plans(census.costs, census.request), allowed,
                                 /*profile=*/false);
    if (found || census.complete) return found;
  }
  return {};
}

/// The plan that needs least, with the least budget it was seen to fit in; nothing where not even
/// the device has room.
std::optional<MemoryPlan> find_least(RunParts& parts, std::int64_t largest) {
  try {
    const BudgetLifted lifted(parts.on);
    return least_plan(parts, take_memory_census(parts, largest, /*budget_bytes=*/0));
  } catch (const OutOfMemory&) {
    return {};
  }
}

[[noreturn]] void refuse(const RunParts& parts, const std::optional<MemoryPlan>& least) {
  const std::int64_t budget = parts.on.budget_bytes;
  std::string named;
  if (least) {
    // No less than one step of the search above what has just failed.
    const std::int64_t bytes =
        std::max(budget_for(least->bytes()), budget + budget / kStepsToLeast);
    named = text(": the least is ", byte_text_upwards(bytes), ", with ",
                 means_text(*least, parts.config));
  }
  const bool exact = parts.config.device.lossy == LossyMeans::Never;
  throw OutOfMemory(text("[--budget] ", byte_text(budget), " is too small", named,
                         "; a smaller model or smaller images need less",
                         exact ? ", and so does --lossy auto" : ""));
}

}  // namespace

std::string fit_memory(RunParts& parts) {
  const auto follow = [&](const MemoryPlan& plan) {
    parts.config = with_memory_means(parts.config, plan);
    parts.plan.micro_batch_size = plan.pass_size;
    parts.predicted_bytes = plan.bytes() + plan.measurements;
    if (GraphCache* graphs = parts.runner->graphs(); graphs != nullptr) graphs->clear();
    parts.on.gauge.release_cache();
    parts.on.gauge.reset_peak();
    parts.on.gauge.forget_notes();
    parts.note_memory();
  };
  const auto fits = [&](const MemoryPlan& plan) {
    const ScopedLimit share = limited_to_planned_share(parts.on);
    return measured_plan(parts, plan, /*profile=*/false);
  };
  const auto fits_as_asked = [&] { return fits({.pass_size = parts.plan.micro_batch_size}); };
  std::optional<MemoryPlan> found = fits_as_asked();
  const bool moved = !found && move_data_to_host(parts);
  if (moved) found = fits_as_asked();
  const std::string in_host_memory = moved ? "samples in host memory" : "";
  if (found) {
    follow(*found);
    return moved ? text("to fit in ", byte_text(parts.on.budget_bytes), ": ", in_host_memory) : "";
  }
  const std::int64_t largest = parts.on.device.is_cuda() ? kLargestOnGpu : kLargestOnCpu;
  found = find_plan(parts, largest);
  if (!found) {
    const std::optional<MemoryPlan> least = find_least(parts, largest);
    if (least && budget_for(least->bytes()) <= parts.on.budget_bytes) found = fits(*least);
    if (!found) refuse(parts, least);
  }
  std::string said = means_text(*found, parts.config);
  follow(*found);
  parts.config.train.pass_size = found->pass_size;
  return text("to fit in ", byte_text(parts.on.budget_bytes), ": ", said, moved ? ", " : "",
              in_host_memory);
}

}  // namespace triaccel
