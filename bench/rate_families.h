#pragma once

#include "bench/rate_meter.h"

namespace triaccel::bench {

// Each measures one family of kernels at the shapes of the workloads, in BF16, next to the
// operators of torch it replaces.

void augment_rates(RateMeter& meter);
void batch_norm_rates(RateMeter& meter);
void depthwise_rates(RateMeter& meter);
void channel_gate_rates(RateMeter& meter);
void excitation_rates(RateMeter& meter);
void max_pool_rates(RateMeter& meter);
void even_pixel_rates(RateMeter& meter);
void stem_convolution_rates(RateMeter& meter);
void bias_rates(RateMeter& meter);
void cross_entropy_rates(RateMeter& meter);
void weight_copy_rates(RateMeter& meter);
void update_rates(RateMeter& meter);

/// What is saved for backward, coded and decoded, in FP32 too; torch has nothing to compare with.
void codec_rates(RateMeter& meter);

}  // namespace triaccel::bench
