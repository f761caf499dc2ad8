#include "triaccel/trainer/loop/zeroth_order_run.h"

#include "triaccel/base/error.h"
#include "triaccel/trainer/loop/network_state.h"

namespace triaccel {

ZerothOrderOptions zeroth_order_options(const RunConfig& config) {
  const RunConfig::ZerothOrder& zeroth = config.zeroth_order;
  return {.epsilon = zeroth.epsilon,
          .directions = zeroth.directions,
          .one_sided = zeroth.one_sided,
          .sign = zeroth.sign,
          .clip = zeroth.clip,
          .momentum = zeroth.momentum,
          .momentum_steps = zeroth.momentum_steps,
          .clean_pass = zeroth.clean_pass,
          .seed = static_cast<std::uint64_t>(config.train.seed)};
}

void redo_zeroth_order(const Network& network, const RunConfig& config,
                       std::span<const ZerothOrderStep> steps) {
  require(config.train.method == TrainMethod::Zo, "redo_zeroth_order", "method '",
          config.train.method, "' trains layers by backpropagation, which its slopes do not tell");
  ZerothOrder zeroth(zeroth_order_options(config), parameters_of(network));
  zeroth.follow({static_cast<std::size_t>(network.layers.size()),
                 LayerPlan{.gradient = GradientSource::ZerothOrder}});
  for (const ZerothOrderStep& step : steps) zeroth.redo(step);
}

}  // namespace triaccel
