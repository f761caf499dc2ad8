#include "triaccel/saved/saved_encoder.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <type_traits>

#include "triaccel/base/error.h"
#include "triaccel/core/frequency_bands.h"
#include "triaccel/core/saved_bytes.h"
#include "triaccel/ops/compression/codec_map.h"
#include "triaccel/ops/compression/frequency_codec.h"
#include "triaccel/ops/compression/group_codec.h"
#include "triaccel/ops/compression/mask_codecs.h"
#include "triaccel/ops/compression/nonzero_codec.h"
#include "triaccel/saved/activation_codec.h"

namespace triaccel {
namespace {

/// Encoded values, and how to decode them; `step` is what the coding's offsets point to.
template <typename Coding>
SavedRecord record_of(const at::Tensor& encoded, const at::Tensor& dense, const Coding& coding,
                      const at::Tensor& step,
                      at::Tensor (*decode)(const at::Tensor&, at::IntArrayRef, at::IntArrayRef,
                                           at::ScalarType, Coding, const CodecMap&)) {
  const auto mapped = [encoded, layout = TensorLayout(dense), coding, step, decode](
                          const CodecMap& map, at::ScalarType type) {
    return decode(encoded, layout.sizes, layout.strides, type, coding, map);
  };
  SavedRecord record{.bytes = encoded.numel(),
                     .decode = [mapped, type = dense.scalar_type()] { return mapped({}, type); }};
  if (channel_order(dense.sizes(), dense.strides())) record.decode_mapped = mapped;
  if (std::is_same_v<Coding, kernels::GroupCoding> && row_order(dense.sizes(), dense.strides()))
    record.decode_rows = mapped;
  return record;
}

SavedRecord levelled_record(const at::Tensor& dense, bool by_rows,
                            const kernels::GroupCoding& coding, const at::Tensor& step,
                            const at::Tensor& not_finite, const EncodeBuffer& room) {
  const LevelledMap levelled = by_rows ? level_rows(dense, room) : level_channels(dense, room);
  const at::Tensor encoded = encode_groups(levelled.values, coding, not_finite, room);
  const auto mapped = [encoded, lowest = levelled.lowest, range = levelled.range, by_rows,
                       layout = TensorLayout(dense), coding,
                       step](CodecMap map, at::ScalarType type) {
    map.lowest = lowest;
    map.range = range;
    map.by_rows = by_rows;
    return decode_groups(encoded, layout.sizes, layout.strides, type, coding, map);
  };
  SavedRecord record{
      .bytes = static_cast<std::int64_t>(encoded.nbytes() + 2 * levelled.lowest.nbytes()),
      .decode = [mapped, type = dense.scalar_type()] { return mapped({}, type); }};
  (by_rows ? record.decode_rows : record.decode_mapped) = mapped;
  return record;
}

SavedRecord registered_record(const at::Tensor& dense, const ActivationCodec& codec,
                              const kernels::DitherKey& key, const at::Tensor& step,
                              const at::Tensor& not_finite, const EncodeBuffer& room) {
  const at::NoGradGuard no_gradient;
  const at::Tensor encoded =
      codec.encode(dense, {.key = key, .not_finite = not_finite, .buffer = room});
  const std::int64_t bytes = codec.bytes(dense.sizes());
  require(encoded.scalar_type() == at::kByte && encoded.numel() == bytes, "ActivationCodec", "'",
          codec.name(), "' announced ", bytes, " bytes and encoded ", encoded.nbytes());
  return {.bytes = bytes, .decode = [encoded, &codec, layout = TensorLayout(dense), key, step] {
            const at::NoGradGuard no_gradient_here;
            return codec.decode(encoded, layout.sizes, layout.strides, layout.type(), key);
          }};
}

}  // namespace

const ActivationCodec& activation_codec(std::uint8_t number) {
  const RegisteredCodec& codec = registered_codec(number);
  const auto* found = dynamic_cast<const ActivationCodec*>(&codec);
  require(found != nullptr, "activation_codec", "'", codec.name(),
          "' cannot encode tensors; add it with register_activation_codec");
  return *found;
}

SharedMask encode_saved_mask(const at::Tensor& dense, bool two_valued, const EncodeBuffer& room) {
  double value = 1;
  if (two_valued) {
    if (!dense.is_cpu()) return nullptr;
    value = dense.max().item<double>();
    if (!dense.eq(0).logical_or_(dense.eq(value)).all().item<bool>()) return nullptr;
  }
  return std::make_shared<SavedMask>(
      SavedMask{.words = encode_mask(dense, kernels::MaskTest::NotZero, room),
                .value = value,
                .two_valued = two_valued});
}

at::Tensor decode_saved_mask(const SavedMask& mask, const TensorLayout& layout, bool as_bool) {
  const at::ScalarType type = as_bool ? at::kBool : layout.type();
  return decode_mask(mask.words, layout.sizes, layout.strides, type,
                     {.value = static_cast<float>(mask.value)});
}

SavedRecord encode_saved_windows(const at::Tensor& indices, const PoolingWindows& windows,
                                 std::int64_t rows, std::int64_t columns,
                                 const EncodeBuffer& room) {
  constexpr std::int64_t most = std::int64_t{1} << 31;
  constexpr std::int64_t most_taps = 256;
  if (windows.taps() < 1 || windows.taps() > most_taps || indices.numel() >= most ||
      rows * columns >= most)
    return {};
  const bool lies_well =
      indices.is_contiguous() ||
      (indices.dim() == 4 && indices.is_contiguous(at::MemoryFormat::ChannelsLast));
  const at::Tensor dense = lies_well ? indices : indices.contiguous();
  const WindowGeometry geometry{.map = {rows, columns},
                                .window = windows.size,
                                .stride = windows.stride,
                                .padding = windows.padding,
                                .dilation = windows.dilation};
  const at::Tensor taps = encode_windows(dense, geometry, room);
  return {.bytes = static_cast<std::int64_t>(taps.nbytes()),
          .decode = [taps, layout = TensorLayout(dense), geometry] {
            return decode_windows(taps, layout.sizes, layout.strides, geometry);
          }};
}

SavedRecord encode_saved_values(const at::Tensor& dense, const SavedPlan& plan,
                                const SavedOffsets& offsets, SharedMask& mask,
                                const at::Tensor& not_finite, const EncodeBuffer& room) {
  const kernels::DitherKey key{.seed = offsets.seed,
                               .tensor = offsets.tensor,
                               .step = offsets.step.const_data_ptr<std::int64_t>()};
  switch (plan.codec) {
    case SavedCodec::Groups:
    case SavedCodec::Levelled:
    case SavedCodec::LevelledRows: {
      const kernels::GroupCoding coding{
          .eighths = plan.eighths, .rounding = offsets.rounding, .key = key};
      const bool by_channels = plan.codec == SavedCodec::Levelled;
      const bool by_rows = plan.codec == SavedCodec::LevelledRows &&
                           row_order(dense.sizes(), dense.strides());  // else as they lie
      if (by_channels && !channel_order(dense.sizes(), dense.strides())) return {};
      if (by_channels || by_rows)
        return levelled_record(dense, by_rows, coding, offsets.step, not_finite, room);
      const at::Tensor encoded = encode_groups(dense, coding, not_finite, room);
      return record_of(encoded, dense, coding, offsets.step, &decode_groups);
    }
    case SavedCodec::NonZeros: {
      const kernels::NonZeroCoding coding{
          .eighths = plan.eighths, .rounding = offsets.rounding, .key = key};
      const EncodedNonZeros encoded =
          encode_nonzeros(dense, coding, mask ? mask->words : at::Tensor(), not_finite, room);
      if (!mask) mask = std::make_shared<SavedMask>(SavedMask{.words = encoded.mask});
      return {.bytes = encoded.records.numel(),
              .decode = [encoded, layout = TensorLayout(dense), type = dense.scalar_type(), coding,
                         step = offsets.step] {
                return decode_nonzeros(encoded, layout.sizes, layout.strides, type, coding);
              }};
    }
    case SavedCodec::Registered:
      return registered_record(dense, activation_codec(plan.registered), key, offsets.step,
                               not_finite, room);
    case SavedCodec::Frequency: {
      if (!can_encode_frequency(dense)) return {};
      const FrequencyCoding coding{.block = plan.block,
                                   .band_eighths = plan.band_eighths,
                                   .rounding = offsets.rounding,
                                   .key = key};
      const at::Tensor encoded = encode_frequency(dense, coding, not_finite, room);
      return record_of(encoded, dense, coding, offsets.step, &decode_frequency);
    }
    case SavedCodec::Raw:
    case SavedCodec::Shape:
    case SavedCodec::Mask:
    case SavedCodec::Window:
    case SavedCodec::Derived:
    case SavedCodec::Host:
      break;
  }
  throw UsageError(text("[SavedStore] '", name_of(plan.codec), "' keeps no values"));
}

}  // namespace triaccel
