#include <ATen/ATen.h>

#include <string>

#include "bench/papers/baseline_codecs/baseline_codec.h"
#include "bench/rate_families.h"
#include "triaccel/ops/compression/frequency_codec.h"
#include "triaccel/ops/compression/group_codec.h"
#include "triaccel/ops/compression/mask_codecs.h"
#include "triaccel/ops/compression/nonzero_codec.h"

namespace triaccel::bench {
namespace {

struct CodecCase {
  std::string name;
  bool rectified = false;  // half of the values are zero
  std::function<std::vector<at::Tensor>(const at::Tensor&)> encode = {};
  std::function<at::Tensor(const std::vector<at::Tensor>&, const at::Tensor& like)> decode = {};
};

/// A norm and what follows it, of [N, C, H, W] as `like` is: what decoding may apply on its way.
CodecMap map_for(const at::Tensor& like, kernels::Activation activation) {
  const auto row = [&] { return at::rand({like.size(1)}, like.options().dtype(at::kFloat)); };
  CodecMap map{.mean = row(), .inverse_deviation = row(), .weight = row(), .bias = row()};
  map.activation = activation;
  if (activation == kernels::Activation::Relu)
    map.gate = encode_mask(at::rand_like(like).sub_(0.5), kernels::MaskTest::Positive);
  return map;
}

std::vector<CodecCase> codec_cases() {
  const FrequencyCoding frequency{.block = 8, .band_eighths = {56, 40, 28, 20, 12}};
  const FrequencyCoding sevens{.block = 7, .band_eighths = {56, 40, 28, 20, 12}};
  const FrequencyCoding small{.block = 4, .band_eighths = {48, 32, 24, 20, 16}};
  const auto by_frequency = [](FrequencyCoding coding) {
    return CodecCase{"frequency " + std::to_string(coding.block), false,
                     [=](const at::Tensor& map) {
                       return std::vector<at::Tensor>{encode_frequency(map, coding)};
                     },
                     [=](const std::vector<at::Tensor>& codes, const at::Tensor& like) {
                       return decode_frequency(codes.front(), like.sizes(), like.strides(),
                                               like.scalar_type(), coding);
                     }};
  };
  const kernels::GroupCoding groups{.eighths = 24};
  const kernels::NonZeroCoding nonzeros{.eighths = 16};
  const BaselineCoding actnn{.codec = Baseline::Actnn};
  const BaselineCoding one_pass{.codec = Baseline::Actnn, .in_one_pass = true};
  const auto by_baseline = [](std::string name, BaselineCoding coding) {
    return CodecCase{std::move(name), false,
                     [=](const at::Tensor& map) {
                       return std::vector<at::Tensor>{encode_baseline(map, coding)};
                     },
                     [=](const std::vector<at::Tensor>& codes, const at::Tensor& like) {
                       return decode_baseline(codes.front(), like.sizes(), like.strides(),
                                              like.scalar_type(), coding);
                     }};
  };
  return {
      by_frequency(frequency),
      by_frequency(sevens),
      by_frequency(small),
      {"groups 3", false,
       [=](const at::Tensor& map) { return std::vector<at::Tensor>{encode_groups(map, groups)}; },
       [=](const std::vector<at::Tensor>& codes, const at::Tensor& like) {
         return decode_groups(codes.front(), like.sizes(), like.strides(), like.scalar_type(),
                              groups);
       }},
      {"nonzeros 4", true,
       [=](const at::Tensor& map) {
         const EncodedNonZeros codes = encode_nonzeros(map, nonzeros);
         return std::vector<at::Tensor>{codes.mask, codes.records};
       },
       [=](const std::vector<at::Tensor>& codes, const at::Tensor& like) {
         return decode_nonzeros({codes[0], codes[1]}, like.sizes(), like.strides(),
                                like.scalar_type(), nonzeros);
       }},
      {"mask", true,
       [](const at::Tensor& map) {
         return std::vector<at::Tensor>{encode_mask(map, kernels::MaskTest::Positive)};
       },
       [](const std::vector<at::Tensor>& codes, const at::Tensor& like) {
         return decode_mask(codes.front(), like.sizes(), like.strides());
       }},
      by_baseline("actnn 2", actnn),
      by_baseline("actnn 2, one pass", one_pass),
  };
}

/// Tensors that follow from a coded one by a norm and an activation, in the pass that decodes it.
void measure_mapped(RateMeter& meter, at::IntArrayRef sizes, at::ScalarType type) {
  const FrequencyCoding frequency{.block = 8, .band_eighths = {56, 40, 28, 20, 12}};
  const kernels::GroupCoding groups{.eighths = 24};
  const at::Tensor like = at::randn(sizes, at::TensorOptions(at::kFloat).device(meter.device()))
                              .to(type)
                              .contiguous(at::MemoryFormat::ChannelsLast);
  const std::string shape = std::to_string(sizes[0]) + " x " + std::to_string(sizes[1]) + " x " +
                            std::to_string(sizes[2]) + " nhwc" +
                            (type == at::kFloat ? " f32" : " bf16");
  const std::pair<std::string, kernels::Activation> kinds[] = {
      {"norm", kernels::Activation::None},
      {"norm, ReLU", kernels::Activation::Relu},
      {"norm, SiLU", kernels::Activation::Silu}};
  for (const auto& [name, activation] : kinds) {
    const CodecMap map = map_for(like, activation);
    const at::Tensor coded = encode_frequency(like, frequency),
                     grouped = encode_groups(like, groups);
    const auto bytes = [&](const at::Tensor& codes) {
      const at::Tensor& gate = map.gate;
      return static_cast<std::int64_t>(codes.nbytes() + like.nbytes() +
                                       (gate.defined() ? gate.nbytes() : 0));
    };
    meter.measure({.family = "codecs",
                   .kernel = "frequency 8 decode, " + name,
                   .shape = shape,
                   .bytes = bytes(coded)},
                  [&]() -> Call {
                    return [=, own = coded.clone()] {
                      return std::vector<at::Tensor>{decode_frequency(
                          own, like.sizes(), like.strides(), like.scalar_type(), frequency, map)};
                    };
                  });
    meter.measure({.family = "codecs",
                   .kernel = "groups 3 decode, " + name,
                   .shape = shape,
                   .bytes = bytes(grouped)},
                  [&]() -> Call {
                    return [=, own = grouped.clone()] {
                      return std::vector<at::Tensor>{decode_groups(
                          own, like.sizes(), like.strides(), like.scalar_type(), groups, map)};
                    };
                  });
  }
}

/// Tokens of 384 channels that follow from coded ones by a layer norm or GELU, likewise.
void measure_rows(RateMeter& meter, at::ScalarType type) {
  const kernels::GroupCoding groups{.eighths = 24};
  const at::Tensor like =
      at::randn({256, 196, 384}, at::TensorOptions(at::kFloat).device(meter.device())).to(type);
  const auto row = [&](std::int64_t count) {
    return at::rand({count}, like.options().dtype(at::kFloat));
  };
  CodecMap norm{.mean = row(256 * 196),
                .inverse_deviation = row(256 * 196),
                .weight = row(384),
                .bias = row(384)};
  norm.by_rows = true;
  CodecMap gelu, tanh;
  gelu.gelu = kernels::Gelu::Erf;
  tanh.gelu = kernels::Gelu::Tanh;
  const at::Tensor codes = encode_groups(like, groups);
  const std::pair<std::string, CodecMap> kinds[] = {
      {"layer norm", norm}, {"GELU", gelu}, {"GELU by tanh", tanh}};
  for (const auto& [name, map] : kinds)
    meter.measure({.family = "codecs",
                   .kernel = "groups 3 decode, " + name,
                   .shape = std::string("256 x 196 x 384 ") + (type == at::kFloat ? "f32" : "bf16"),
                   .bytes = static_cast<std::int64_t>(codes.nbytes() + like.nbytes())},
                  [&, map = map]() -> Call {
                    return [=, own = codes.clone()] {
                      return std::vector<at::Tensor>{decode_groups(
                          own, like.sizes(), like.strides(), like.scalar_type(), groups, map)};
                    };
                  });
}

std::int64_t bytes_of(const std::vector<at::Tensor>& tensors) {
  std::int64_t bytes = 0;
  for (const at::Tensor& tensor : tensors) bytes += static_cast<std::int64_t>(tensor.nbytes());
  return bytes;
}

void measure(RateMeter& meter, const CodecCase& codec, at::IntArrayRef sizes,
             at::MemoryFormat format, at::ScalarType type) {
  const auto make_map = [&, format, type] {
    at::Tensor map = at::randn(sizes, at::TensorOptions(at::kFloat).device(meter.device()));
    if (codec.rectified) map.relu_();
    return map.to(type).contiguous(format);
  };
  const std::string shape = std::to_string(sizes[0]) + " x " + std::to_string(sizes[1]) + " x " +
                            std::to_string(sizes[2]) +
                            (format == at::MemoryFormat::ChannelsLast ? " nhwc" : " nchw") +
                            (type == at::kFloat ? " f32" : " bf16");
  const at::Tensor map = make_map();
  const std::vector<at::Tensor> codes = codec.encode(map);
  const std::int64_t coded = bytes_of(codes);
  meter.measure({.family = "codecs",
                 .kernel = codec.name + " encode",
                 .shape = shape,
                 .bytes = static_cast<std::int64_t>(map.nbytes()) + coded},
                [&]() -> Call { return [&codec, own = make_map()] { return codec.encode(own); }; });
  const std::int64_t decoded =
      static_cast<std::int64_t>(codec.decode(codes, map).nbytes());  // a mask's bytes are bool
  meter.measure({.family = "codecs",
                 .kernel = codec.name + " decode",
                 .shape = shape,
                 .bytes = decoded + coded},
                [&]() -> Call {
                  return [&codec, own = codec.encode(make_map()), like = map] {
                    return std::vector<at::Tensor>{codec.decode(own, like)};
                  };
                });
}

}  // namespace

void codec_rates(RateMeter& meter) {
  for (const CodecCase& codec : codec_cases()) {
    measure(meter, codec, {256, 64, 56, 56}, at::MemoryFormat::ChannelsLast, at::kFloat);
    measure(meter, codec, {256, 64, 56, 56}, at::MemoryFormat::Contiguous, at::kFloat);
    measure(meter, codec, {256, 64, 56, 56}, at::MemoryFormat::ChannelsLast, at::kBFloat16);
    measure(meter, codec, {256, 64, 56, 56}, at::MemoryFormat::Contiguous, at::kBFloat16);
  }
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    measure_mapped(meter, {256, 64, 56, 56}, type);
    measure_mapped(meter, {64, 256, 56, 56}, type);
    measure_rows(meter, type);
  }
}

}  // namespace triaccel::bench
