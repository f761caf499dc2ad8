#include "triaccel/trainer/config/int8_options.h"

#include <ATen/Parallel.h>

#include <algorithm>

#include "triaccel/policies/zeroth_order/elastic_boundary.h"
#include "triaccel/trainer/config/run_config.h"

namespace triaccel {
namespace {

/// libtorch's own pool, so that --threads means the same for every method.
int8::Threads pool_threads() {
  return {.count = std::min(at::get_num_threads(), int8::kMostWorkers),
          .run = [](void*, std::int32_t items, int8::Work work, void* argument) {
            at::parallel_for(0, items, 1, [&](std::int64_t begin, std::int64_t end) {
              for (std::int64_t item = begin; item < end; ++item)
                work(argument, static_cast<std::int32_t>(item), at::get_thread_num());
            });
          }};
}

}  // namespace

int8::Network int8_network_for(const RunConfig& config, const Int8Data& data) {
  return int8_network(config.model.name, config.model.width, data.shape);
}

Int8Options int8_options(const RunConfig& config, const int8::Network& network,
                         std::int64_t samples_per_epoch) {
  const std::int64_t asked_for = config.zeroth_order.bp_layers;
  const Int8Settings settings{
      .seed = static_cast<std::uint64_t>(config.train.seed),
      .batch = std::min(extent_of(config).batch, samples_per_epoch),
      .bp_layers =
          asked_for < 0 ? std::min<std::int64_t>(kBpLayers, network.layer_count()) : asked_for,
      .clean_pass = config.zeroth_order.clean_pass,
      .freeze = config.zeroth_order.freeze,
      .sign_only = config.zeroth_order.sign,
      .paper = config.int8.conventions == Int8Conventions::Paper,
      .rate_exponent = config.int8.rate_exponent,
      .gradient_bits = config.int8.gradient_bits,
      .reach = config.int8.reach,
      .zo_layers = config.int8.zo_layers,
      .logit_gain = config.int8.logit_gain,
      .micro_batch = config.int8.micro_batch,
      .kernel = config.int8.kernel,
      .threads = pool_threads()};
  return int8_options(settings, network, steps_in_run(extent_of(config), samples_per_epoch));
}

DataOptions int8_data_options(const RunConfig& config) {
  return {.name = config.data.name,
          .root = config.data.root,
          .train_samples = config.data.train_samples,
          .validation_samples = config.data.val_split,
          .image_size = config.data.image_size,
          .rotation = config.data.rotation,
          .bad_data = bad_data_rule(config),
          .seed = static_cast<std::uint64_t>(config.train.seed)};
}

}  // namespace triaccel
