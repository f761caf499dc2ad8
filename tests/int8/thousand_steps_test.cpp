#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "tests/int8/samples.h"
#include "triaccel/int8/products/product.h"
#include "triaccel/int8/training/recipe.h"
#include "triaccel/int8/training/train_step.h"

namespace triaccel::int8 {
namespace {

/// Threads that wait for work instead of being started for it.
class Pool {
 public:
  explicit Pool(std::int32_t count) : count_(count) {
    for (std::int32_t worker = 0; worker < count; ++worker)
      threads_.emplace_back([this, worker] { serve(worker); });
  }
  ~Pool() {
    items_ = -1;
    begin();
  }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  Threads threads() {
    return {.count = count_,
            .run = [](void* pool, std::int32_t items, Work work,
                      void* argument) { static_cast<Pool*>(pool)->run(items, work, argument); },
            .context = this};
  }

 private:
  void begin() {
    ++round_;
    round_.notify_all();
  }
  void run(std::int32_t items, Work work, void* argument) {
    items_ = items;
    work_ = work;
    argument_ = argument;
    next_ = 0;
    running_ = count_;
    begin();
    for (std::int32_t left; (left = running_) > 0;) running_.wait(left);
  }
  void serve(std::int32_t worker) {
    for (std::int32_t seen = 0;;) {
      round_.wait(seen);
      ++seen;
      if (items_ < 0) return;
      for (std::int32_t i; (i = next_++) < items_;) work_(argument_, i, worker);
      if (--running_ == 0) running_.notify_all();
    }
  }

  std::int32_t count_;
  std::int32_t items_ = 0;
  Work work_ = nullptr;
  void* argument_ = nullptr;
  std::atomic<std::int32_t> round_{0}, next_{0}, running_{0};
  std::vector<std::jthread> threads_;
};

Network tiny_network() {
  return make_network({{.name = "a",
                        .kind = LayerKind::Convolution,
                        .in_channels = 1,
                        .out_channels = 4,
                        .height = 6,
                        .width = 6,
                        .kernel = 3,
                        .padding = 1,
                        .pooling = Pooling::Max2x2},
                       {.name = "b", .in_channels = 36, .out_channels = 17},
                       {.name = "c", .in_channels = 17, .out_channels = 5, .relu = false}});
}

/// After a thousand steps with falling rates, the last layer by backpropagation.
std::uint64_t hash_of_a_run(const char* kernel, const Threads& threads) {
  constexpr std::int64_t kSteps = 1000;
  State state = initial_state(tiny_network(), 1);
  const Recipe recipe = {.noise = {.reach = 7},
                         .slope_exponent = 11,
                         .rate_exponent = {4, 10},
                         .gradient_bits = {3, 1},
                         .saturated_share = 6554};
  const Samples data(state.network, 12, 1);
  Arena arena;
  for (std::int64_t step = 0; step < kSteps; ++step) {
    const StepOptions options = with_recipe(
        {.seed = 7, .bp_layers = 1, .kernel = kernel, .threads = threads}, recipe, step, kSteps);
    Batch batch = data.batch();
    batch.size = 4;
    batch.inputs += step % 3 * 4 * state.network.inputs();
    batch.labels += step % 3 * 4;
    train_step(state, batch, options, arena);
  }
  return state_hash(state);
}

TEST(ThousandSteps, EndWithTheRecordedWeightsWithAnyThreadsAndKernel) {
  constexpr std::uint64_t kRecorded = 5716542475609977252u;
  std::int32_t kernels = 0;
  const ProductKernel* kernel = product_kernels(kernels);
  for (; kernels > 0; --kernels, ++kernel) {
    if (!kernel->available()) continue;
    for (const std::int32_t count : {1, 2, 8}) {
      Pool pool(count);
      EXPECT_EQ(hash_of_a_run(kernel->name, pool.threads()), kRecorded)
          << kernel->name << ", " << count << " threads";
    }
  }
}

}  // namespace
}  // namespace triaccel::int8
