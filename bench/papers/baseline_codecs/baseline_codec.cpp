#include "bench/papers/baseline_codecs/baseline_codec.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "bench/papers/baseline_codecs/split_codec.h"
#include "triaccel/base/error.h"
#include "triaccel/ops/compression/encoded_tensor.h"
#include "triaccel/ops/tensors/dispatch.h"
#include "triaccel/ops/tensors/tensor_check.h"
#include "triaccel/saved/activation_codec.h"

namespace triaccel {
namespace {

using kernels::CodingPasses;

bool splits(Baseline codec, at::IntArrayRef sizes) {
  return codec == Baseline::Division && has_maps({sizes.data(), sizes.size()});
}

kernels::PlainGroupCoding plain_coding(const BaselineCoding& coding, at::IntArrayRef sizes,
                                       kernels::FloatType type) {
  const bool flat = coding.codec == Baseline::Gact;
  return {.type = type,
          .count = c10::multiply_integers(sizes),
          .samples = flat || sizes.empty() ? 1 : sizes[0],
          .bits = flat ? kGactBits : kActnnBits,
          .key = coding.key,
          .passes = coding.in_one_pass ? CodingPasses::One
                    : flat             ? CodingPasses::Two
                                       : CodingPasses::Three};
}

kernels::SplitCoding split_coding(const BaselineCoding& coding, at::IntArrayRef sizes,
                                  kernels::FloatType type) {
  return {.type = type,
          .maps = sizes[0] * sizes[1],
          .rows = sizes[2],
          .columns = sizes[3],
          .key = coding.key};
}

at::Tensor scratch_for(const at::Tensor& values, std::int64_t numbers) {
  return at::empty({values.is_cuda() ? numbers : 0}, values.options().dtype(at::kFloat));
}

class BaselineCodec final : public ActivationCodec {
 public:
  explicit BaselineCodec(Baseline codec) : codec_(codec) {}

  std::string_view name() const override { return name_of(codec_); }

  std::int64_t bytes(std::span<const std::int64_t> sizes) const override {
    return baseline_bytes(codec_, sizes);
  }

  double bits() const override {
    if (codec_ == Baseline::Bf16) return 16;
    return codec_ == Baseline::Gact ? kGactBits : kActnnBits;
  }

  /// ActNN keeps a tensor as often as it is saved.
  bool shares() const override { return codec_ != Baseline::Actnn; }

  at::Tensor encode(const at::Tensor& values, const EncodeRequest& request) const override {
    return encode_baseline(values, {.codec = codec_, .key = request.key}, request.not_finite,
                           request.buffer);
  }

  at::Tensor decode(const at::Tensor& encoded, at::IntArrayRef sizes, at::IntArrayRef strides,
                    at::ScalarType type, const kernels::DitherKey& key) const override {
    return decode_baseline(encoded, sizes, strides, type, {.codec = codec_, .key = key});
  }

 private:
  Baseline codec_;
};

}  // namespace

at::Tensor encode_baseline(const at::Tensor& values, const BaselineCoding& coding,
                           const at::Tensor& not_finite, const EncodeBuffer& room) {
  constexpr std::string_view who = "encode_baseline";
  check_dense(who, values);
  const at::NoGradGuard no_gradient;
  const at::IntArrayRef sizes = values.sizes();
  const kernels::FloatType type = float_type_of(who, "values", values.scalar_type());
  const at::Tensor codes = allocate_encoded(
      values, baseline_bytes(coding.codec, {sizes.data(), sizes.size()}), at::kByte, room);
  if (coding.codec == Baseline::Bf16) {
    codes.view(at::kBFloat16).as_strided(sizes, values.strides()).copy_(values);
    return codes;
  }
  std::int32_t* counter = counter_of(who, not_finite, values.device());
  void* to = codes.mutable_data_ptr();
  if (splits(coding.codec, sizes)) {
    const kernels::SplitCoding split = split_coding(coding, sizes, type);
    const at::Tensor maps = values.contiguous();
    const at::Tensor scratch = scratch_for(values, split.maps * kernels::kSplitScratch);
    const void* from = maps.const_data_ptr();
    dispatch(
        who, values.device(), [&] { kernels::cpu::encode_split(split, from, to, counter); },
        [&](auto stream) {
          kernels::cuda::encode_split(split, from, to, scratch.mutable_data_ptr<float>(), counter,
                                      stream);
        });
    return codes;
  }
  const kernels::PlainGroupCoding plain = plain_coding(coding, sizes, type);
  const at::Tensor scratch =
      scratch_for(values, sample_groups(plain.samples, plain.count) * kernels::kPlainGroupScratch);
  const void* from = values.const_data_ptr();
  dispatch(
      who, values.device(), [&] { kernels::cpu::encode_plain_groups(plain, from, to, counter); },
      [&](auto stream) {
        kernels::cuda::encode_plain_groups(plain, from, to, scratch.mutable_data_ptr<float>(),
                                           counter, stream);
      });
  return codes;
}

at::Tensor decode_baseline(const at::Tensor& codes, at::IntArrayRef sizes, at::IntArrayRef strides,
                           at::ScalarType type, const BaselineCoding& coding) {
  constexpr std::string_view who = "decode_baseline";
  const at::NoGradGuard no_gradient;
  const kernels::FloatType stored = float_type_of(who, "values", type);
  at::Tensor values = allocate_decoded(
      who, codes, baseline_bytes(coding.codec, {sizes.data(), sizes.size()}), sizes, strides, type);
  if (coding.codec == Baseline::Bf16)
    return values.copy_(codes.view(at::kBFloat16).as_strided(sizes, strides));
  const void* from = codes.const_data_ptr();
  if (splits(coding.codec, sizes)) {
    const kernels::SplitCoding split = split_coding(coding, sizes, stored);
    const at::Tensor maps = values.is_contiguous() ? values : at::empty(sizes, values.options());
    void* to = maps.mutable_data_ptr();
    dispatch(
        who, codes.device(), [&] { kernels::cpu::decode_split(split, from, to); },
        [&](auto stream) { kernels::cuda::decode_split(split, from, to, stream); });
    return maps.is_same(values) ? values : values.copy_(maps);
  }
  const kernels::PlainGroupCoding plain = plain_coding(coding, sizes, stored);
  void* to = values.mutable_data_ptr();
  dispatch(
      who, codes.device(), [&] { kernels::cpu::decode_plain_groups(plain, from, to); },
      [&](auto stream) { kernels::cuda::decode_plain_groups(plain, from, to, stream); });
  return values;
}

void register_baseline_codecs() {
  for (const Baseline codec : {Baseline::Bf16, Baseline::Gact, Baseline::Actnn, Baseline::Division})
    register_activation_codec(std::make_unique<BaselineCodec>(codec));
}

}  // namespace triaccel
