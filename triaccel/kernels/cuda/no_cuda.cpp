#include <string_view>

#include "triaccel/base/error.h"
#include "triaccel/kernels/adamw.h"
#include "triaccel/kernels/augment.h"
#include "triaccel/kernels/batch_norm.h"
#include "triaccel/kernels/bias.h"
#include "triaccel/kernels/bit_mask_codec.h"
#include "triaccel/kernels/channel_gate.h"
#include "triaccel/kernels/channel_levels.h"
#include "triaccel/kernels/coded_update.h"
#include "triaccel/kernels/cross_entropy.h"
#include "triaccel/kernels/depthwise.h"
#include "triaccel/kernels/even_pixels.h"
#include "triaccel/kernels/fill.h"
#include "triaccel/kernels/frequency_codec.h"
#include "triaccel/kernels/gradient_moments.h"
#include "triaccel/kernels/group_codec.h"
#include "triaccel/kernels/image_convolution.h"
#include "triaccel/kernels/layer_scale.h"
#include "triaccel/kernels/max_pool.h"
#include "triaccel/kernels/narrow_product.h"
#include "triaccel/kernels/nonzero_codec.h"
#include "triaccel/kernels/predicted_codec.h"
#include "triaccel/kernels/restore_if_skipped.h"
#include "triaccel/kernels/scaled_cast.h"
#include "triaccel/kernels/sgd.h"
#include "triaccel/kernels/split_codec.h"
#include "triaccel/kernels/squeeze_excite.h"
#include "triaccel/kernels/step_control.h"
#include "triaccel/kernels/step_inputs.h"
#include "triaccel/kernels/three_pass_codec.h"
#include "triaccel/kernels/weight_average.h"
#include "triaccel/kernels/weight_copy.h"
#include "triaccel/kernels/window_codec.h"
#include "triaccel/kernels/zo_estimate.h"
#include "triaccel/kernels/zo_noise.h"

// Stands in for every launcher of kernels/cuda where the build has no nvcc.
namespace triaccel::kernels::cuda {
namespace {

[[noreturn]] void no_cuda(std::string_view who) {
  throw UsageError(
      text("[", who, "] this build has no CUDA back end; configure with -DTRIACCEL_CUDA=ON"));
}

}  // namespace

void sgd_update(std::span<const TensorEntry>, const UpdateInputs&, SgdStep, cudaStream_t) {
  no_cuda("sgd_update");
}

void adamw_update(std::span<const TensorEntry>, const UpdateInputs&, AdamWStep, cudaStream_t) {
  no_cuda("adamw_update");
}

void coded_sgd_update(std::span<const TensorEntry>, const UpdateInputs&, SgdStep, const StateNoise&,
                      cudaStream_t) {
  no_cuda("coded_sgd_update");
}

void coded_adamw_update(std::span<const TensorEntry>, const UpdateInputs&, AdamWStep,
                        const StateNoise&, cudaStream_t) {
  no_cuda("coded_adamw_update");
}

void zo_move(std::span<const TensorEntry>, const ZoMove&, cudaStream_t) { no_cuda("zo_move"); }

void zo_estimate(const ZoEstimate&, cudaStream_t) { no_cuda("zo_estimate"); }

void zo_close(const ZoEstimate&, const StepControl*, cudaStream_t) { no_cuda("zo_close"); }

void average_weights(std::span<const TensorEntry>, const StepControl*, WeightAverageStep,
                     cudaStream_t) {
  no_cuda("average_weights");
}

void swap_weights(std::span<const TensorEntry>, cudaStream_t) { no_cuda("swap_weights"); }

void clear_moments(MomentsScales, LayerMoments*, std::int64_t, cudaStream_t) {
  no_cuda("clear_moments");
}

void add_gradient_moments(std::span<const TensorEntry>, MomentsScales, MomentsScratch,
                          LayerMoments*, cudaStream_t) {
  no_cuda("add_gradient_moments");
}

void decide_step(StepControl*, const LayerMoments*, std::int64_t, StepControlOptions,
                 cudaStream_t) {
  no_cuda("decide_step");
}

void update_layer_scales(LayerScale*, const LayerMoments*, std::int64_t, cudaStream_t) {
  no_cuda("update_layer_scales");
}

void restore_if_skipped(std::span<const TensorEntry>, const StepControl*, cudaStream_t) {
  no_cuda("restore_if_skipped");
}

void restore(std::span<const TensorEntry>, cudaStream_t) { no_cuda("restore"); }

void save_to_restore(std::span<const TensorEntry>, cudaStream_t) { no_cuda("save_to_restore"); }

void place_step_inputs(const StepInputs&, const StepPlaces&, cudaStream_t) {
  no_cuda("place_step_inputs");
}

const void* step_inputs_kernel() { no_cuda("step_inputs_kernel"); }

FillKernel fill_kernel(const Fill&) { no_cuda("fill_kernel"); }

void cross_entropy(RunningScore*, const ClassifiedBatch&, PartialScore*, cudaStream_t) {
  no_cuda("cross_entropy");
}

void copy_weights(std::span<const WeightCopyEntry>, cudaStream_t) { no_cuda("copy_weights"); }

void write_whole_gradient(const WholeGradient&, cudaStream_t) { no_cuda("write_whole_gradient"); }

void scaled_cast(const CastArrays&, CastScale, cudaStream_t) { no_cuda("scaled_cast"); }

std::int64_t batch_norm_scratch_bytes(const NormMap&) { no_cuda("batch_norm"); }

void batch_norm_train(const NormForward&, const NormBatchStatistics&, void*, cudaStream_t) {
  no_cuda("batch_norm_train");
}

void batch_norm_infer(const NormForward&, NormKnownStatistics, cudaStream_t) {
  no_cuda("batch_norm_infer");
}

void batch_norm_backward(const NormBackward&, void*, cudaStream_t) {
  no_cuda("batch_norm_backward");
}

void take_even_pixels(const EvenPixels&, std::int64_t, const void*, void*, cudaStream_t) {
  no_cuda("take_even_pixels");
}

void spread_even_pixels(const EvenPixels&, std::int64_t, const void*, void*, cudaStream_t) {
  no_cuda("spread_even_pixels");
}

void level_channels(const MapsToLevel&, const void*, void*, float*, float*, cudaStream_t) {
  no_cuda("level_channels");
}

void augment(const ImageBatch&, Augmentation, bool, float*, cudaStream_t) { no_cuda("augment"); }

void gather_labels(const std::uint8_t*, std::int64_t, const std::int64_t*, std::int64_t,
                   std::int64_t*, cudaStream_t) {
  no_cuda("gather_labels");
}

void depthwise_forward(const DepthwiseShape&, const void*, const float*, void*, cudaStream_t) {
  no_cuda("depthwise_forward");
}

void depthwise_input_gradient(const DepthwiseShape&, const void*, const float*, void*,
                              cudaStream_t) {
  no_cuda("depthwise_input_gradient");
}

void depthwise_weight_gradient(const DepthwiseShape&, const void*, const void*, float*, float*,
                               cudaStream_t) {
  no_cuda("depthwise_weight_gradient");
}

void pixel_sum(const ChannelMaps&, const PixelSum&, cudaStream_t) { no_cuda("pixel_sum"); }

void channel_gate(const ChannelMaps&, const ChannelGate&, cudaStream_t) { no_cuda("channel_gate"); }

bool excite_fits(const ExciteShape&) { return false; }

void excite_forward(const ExciteShape&, const ExciteLayers&, const ExciteForward&, cudaStream_t) {
  no_cuda("excite_forward");
}

void excite_backward(const ExciteShape&, const ExciteLayers&, const ExciteBackward&, cudaStream_t) {
  no_cuda("excite_backward");
}

void excite_parameters(const ExciteShape&, const ExciteParameters&, cudaStream_t) {
  no_cuda("excite_parameters");
}

void max_pool(const PoolShape&, const void*, void*, std::uint8_t*, cudaStream_t) {
  no_cuda("max_pool");
}

void max_pool_gradient(const PoolShape&, const void*, const void*, const std::uint8_t*, void*,
                       cudaStream_t) {
  no_cuda("max_pool_gradient");
}

bool has_image_convolution() { return false; }

void image_convolution(const ImageConvolutionShape&, const void*, const float*, void*,
                       cudaStream_t) {
  no_cuda("image_convolution");
}

void image_weight_gradient(const ImageConvolutionShape&, const void*, const void*, float*, float*,
                           cudaStream_t) {
  no_cuda("image_weight_gradient");
}

void add_bias(const BiasedMatrix&, const float*, void*, cudaStream_t) { no_cuda("add_bias"); }

void bias_gradient(const BiasedMatrix&, const void*, float*, float*, cudaStream_t) {
  no_cuda("bias_gradient");
}

void narrow_product(const NarrowProduct&, const void*, const void*, const float*, void*,
                    cudaStream_t) {
  no_cuda("narrow_product");
}

void narrow_input_gradient(const NarrowProduct&, const void*, const void*, void*, cudaStream_t) {
  no_cuda("narrow_input_gradient");
}

void encode_groups(const GroupCoding&, const void*, void*, std::int32_t*, cudaStream_t) {
  no_cuda("encode_groups");
}

void decode_groups(const GroupCoding&, const void*, void*, const CodecMap&, const ChannelOrder&,
                   cudaStream_t) {
  no_cuda("decode_groups");
}

void encode_plain_groups(const PlainGroupCoding&, const void*, void*, float*, std::int32_t*,
                         cudaStream_t) {
  no_cuda("encode_plain_groups");
}

void decode_plain_groups(const PlainGroupCoding&, const void*, void*, cudaStream_t) {
  no_cuda("decode_plain_groups");
}

void encode_split(const SplitCoding&, const void*, void*, float*, std::int32_t*, cudaStream_t) {
  no_cuda("encode_split");
}

void decode_split(const SplitCoding&, const void*, void*, cudaStream_t) { no_cuda("decode_split"); }

void encode_mask(MaskedArray, const void*, MaskTest, std::uint32_t*, cudaStream_t) {
  no_cuda("encode_mask");
}

void decode_mask(MaskedArray, const std::uint32_t*, MaskValue, void*, cudaStream_t) {
  no_cuda("decode_mask");
}

void encode_windows(const WindowPlaces&, const std::int64_t*, std::uint32_t*, cudaStream_t) {
  no_cuda("encode_windows");
}

void decode_windows(const WindowPlaces&, const std::uint32_t*, std::int64_t*, cudaStream_t) {
  no_cuda("decode_windows");
}

void encode_nonzeros(const NonZeroCoding&, const void*, NonZeroMask, void*, std::int32_t*,
                     cudaStream_t) {
  no_cuda("encode_nonzeros");
}

void decode_nonzeros(const NonZeroCoding&, const std::uint32_t*, const void*, void*, cudaStream_t) {
  no_cuda("decode_nonzeros");
}

void encode_frequency(const FrequencyCoding&, const void*, std::uint8_t*, std::int32_t*,
                      cudaStream_t) {
  no_cuda("encode_frequency");
}

void decode_frequency(const FrequencyCoding&, const std::uint8_t*, void*, const CodecMap&,
                      cudaStream_t) {
  no_cuda("decode_frequency");
}

void encode_predicted(const PredictedCoding&, const void*, std::uint8_t*, PredictionCounts*,
                      std::int32_t*, cudaStream_t) {
  no_cuda("encode_predicted");
}

void decode_predicted(const PredictedCoding&, const std::uint8_t*, void*, cudaStream_t) {
  no_cuda("decode_predicted");
}

}  // namespace triaccel::kernels::cuda
