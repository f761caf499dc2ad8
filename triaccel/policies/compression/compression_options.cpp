#include "triaccel/policies/compression/compression_options.h"

#include "triaccel/base/error.h"

namespace triaccel {
namespace {

/// Written so that NaN fails too.
void require_range(double value, double low, double high, std::string_view field) {
  require(value >= low && value <= high, "CompressionOptions", field, " must lie in [", low, ", ",
          high, "], got ", value);
}

constexpr double kMostRatio = 1000;
constexpr double kMany = 1e9;

}  // namespace

void check_options(const CompressionOptions& options) {
  require_range(options.error_bound, 1e-12, 1, "error_bound");
  require_range(options.offload_share, 0, 1, "offload_share");

  const CodecOptions& codecs = options.codecs;
  require_range(codecs.hysteresis, 0, 0.9, "codecs.hysteresis");
  require_range(codecs.nonlinear_bits, 1, 8, "codecs.nonlinear_bits");
  require_range(codecs.attention_bits, 1, 8, "codecs.attention_bits");
  require_range(codecs.derived_bits, 1, 8, "codecs.derived_bits");
  require_range(codecs.derived_error, 0, 1, "codecs.derived_error");

  const LoopOptions& loop = options.loop;
  require_range(loop.target_ratio, 1, kMostRatio, "loop.target_ratio");
  require_range(loop.least_ratio, 1, loop.target_ratio, "loop.least_ratio");
  if (loop.most_ratio != 0)
    require_range(loop.most_ratio, loop.target_ratio, kMostRatio, "loop.most_ratio");
  if (loop.start_ratio != 0) require_range(loop.start_ratio, 1, kMostRatio, "loop.start_ratio");
  require_range(loop.guard_points, 0, 100, "loop.guard_points");
  require_range(loop.guard_loss, 0, kMany, "loop.guard_loss");
  require_range(loop.noise_target, 0, kMany, "loop.noise_target");
  for (const double grow : {loop.grow, loop.guard_grow, loop.spike_grow})
    require_range(grow, 1, 100, "loop.grow, guard_grow and spike_grow");
  require_range(loop.quiet_shrink, 0.01, 1, "loop.quiet_shrink");
  for (const auto count : {loop.frozen_epochs, loop.quiet_epochs, loop.lossless_steps})
    require_range(static_cast<double>(count), 0, kMany,
                  "loop.frozen_epochs, quiet_epochs and lossless_steps");
  require_range(loop.spike_deviations, 1, kMany, "loop.spike_deviations");
}

}  // namespace triaccel
