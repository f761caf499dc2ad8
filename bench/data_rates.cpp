#include <ATen/ATen.h>

#include "bench/rate_families.h"
#include "triaccel/base/error.h"
#include "triaccel/ops/loss_data/augment.h"

namespace triaccel::bench {
namespace {

/// A batch of random samples, cut as for training and laid out as the networks take it.
struct ImageSet {
  ImageSet(std::int64_t batch, std::int64_t side, c10::Device device)
      : images(at::randint(256, {kImages, 3, side, side},
                           at::TensorOptions(at::kByte).device(device))),
        ids(at::randint(kImages, {batch}, at::TensorOptions(at::kLong).device(device))),
        epoch(at::zeros({1}, ids.options())),
        scale(at::rand({3}, at::TensorOptions(at::kFloat).device(device))),
        shift(at::randn({3}, scale.options())),
        output(at::empty({batch, 3, side, side}, scale.options(), at::MemoryFormat::ChannelsLast)) {
  }

  static constexpr std::int64_t kImages = 2048;
  at::Tensor images, ids, epoch, scale, shift, output;
};

void augment_rates_at(RateMeter& meter, std::int64_t batch, std::int64_t side) {
  const std::int64_t numbers = batch * 3 * side * side;
  meter.measure({.family = "augment",
                 .kernel = "crop, flip",
                 .shape = text(batch, " x 3 x ", side, " x ", side),
                 .bytes = 5 * numbers},
                [=, device = meter.device()]() -> Call {
                  const auto set = std::make_shared<ImageSet>(batch, side, device);
                  return [=]() -> std::vector<at::Tensor> {
                    augment(set->output, set->images, set->ids, set->epoch, set->scale, set->shift,
                            {.seed = 1, .padding = 4, .flip = true});
                    return {};
                  };
                });
}

}  // namespace

void augment_rates(RateMeter& meter) {
  augment_rates_at(meter, 96, 32);
  augment_rates_at(meter, 1024, 32);
  augment_rates_at(meter, 96, 224);
}

}  // namespace triaccel::bench
