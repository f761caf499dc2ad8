#include "triaccel/trainer/measure/prediction_cost.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "triaccel/base/clock.h"
#include "triaccel/base/error.h"
#include "triaccel/device/device_choice.h"
#include "triaccel/device/out_of_memory.h"
#include "triaccel/ops/compression/predicted_codec.h"
#include "triaccel/ops/tensors/tensor_state.h"

namespace triaccel {
namespace {

/// The least of some runs, the first left out.
double seconds_of(const std::function<void()>& work, c10::Device device) {
  constexpr int runs = 3;
  work();
  double least = INFINITY;
  for (int i = 0; i < runs; ++i) {
    synchronize(device);
    const Stopwatch watch;
    work();
    synchronize(device);
    least = std::min(least, watch.seconds());
  }
  return least;
}

double seconds_saved(const at::Tensor& values, const SavedPlan& plan) {
  const FrequencyCoding coding{.block = plan.block, .band_eighths = plan.band_eighths};
  const at::IntArrayRef sizes = values.sizes(), strides = values.strides();
  const at::ScalarType type = values.scalar_type();
  const double plain = seconds_of(
      [&] { decode_frequency(encode_frequency(values, coding), sizes, strides, type, coding); },
      values.device());
  const double predicted = seconds_of(
      [&] {
        decode_predicted(encode_predicted(values, coding, plan.predicted), sizes, strides, type,
                         coding, plan.predicted);
      },
      values.device());
  return plain - predicted;
}

}  // namespace

double seconds_saved_by_prediction(std::span<const SavedStatistics> tensors,
                                   std::span<const SavedPlan> plans, std::int64_t samples,
                                   c10::Device device) {
  double sum = 0;
  try {
    catching_out_of_memory([&] {
      for (std::size_t i = 0; i < plans.size(); ++i) {
        if (plans[i].predicted == 0) continue;
        const at::Tensor wave =
            at::arange(tensors[i].elements(samples), at::TensorOptions(at::kFloat).device(device))
                .sin_()
                .view(tensors[i].sizes_for(samples));
        sum += seconds_saved(wave.to(scalar_type_of(tensors[i].type)), plans[i]);
      }
    });
  } catch (const OutOfMemory&) {
    return std::nan("");
  }
  return sum;
}

}  // namespace triaccel
