#include "triaccel/layers/convolution/kernel_choice.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>
#include <map>
#include <utility>

#include "triaccel/base/error.h"
#include "triaccel/base/nearest_name.h"
#include "triaccel/device/device_choice.h"
#include "triaccel/layers/convolution/gemm_convolution.h"

namespace triaccel {
namespace {

constexpr std::array kPrecisions = {Precision::Fp32, Precision::Bf16, Precision::Fp16};
constexpr std::string_view kWho = "kernel choices";
constexpr std::string_view kWayOut = "; remove the setting to have the kernels chosen again";

const std::map<std::string, ConvolutionKernel, std::less<>> kKernels = {
    {"gemm", {ConvolutionAlgorithm::Gemm, Arithmetic::Native}},
    {"gemm/fp32", {ConvolutionAlgorithm::Gemm, Arithmetic::Fp32}},
    {"stock", {ConvolutionAlgorithm::Stock, Arithmetic::Native}},
    {"stock/fp32", {ConvolutionAlgorithm::Stock, Arithmetic::Fp32}}};

std::string kernels_text(const LayerKernels& kernels) {
  std::string text;
  for (Precision precision : kPrecisions) {
    if (!text.empty()) text += ',';
    text += std::string(name_of(precision)) + '=' + name_of(kernels.of(precision));
  }
  return text;
}

/// "0,2-4" of ascending numbers.
std::string ranges_text(const std::vector<std::size_t>& layers) {
  std::string text;
  for (std::size_t i = 0; i < layers.size();) {
    std::size_t end = i + 1;
    while (end < layers.size() && layers[end] == layers[end - 1] + 1) ++end;
    if (!text.empty()) text += ',';
    text += std::to_string(layers[i]);
    if (end - i > 1) text += '-' + std::to_string(layers[end - 1]);
    i = end;
  }
  return text;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::int64_t layer_number(std::string_view text, std::int64_t layers) {
  std::int64_t number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  require(error == std::errc() && end == text.data() + text.size() && number >= 0, kWho, "'", text,
          "' is not the number of a layer", kWayOut);
  require(number < layers, kWho, "layer ", number, " is named, but the network has ", layers,
          " layers", kWayOut);
  return number;
}

ConvolutionKernel kernel_named(std::string_view name) {
  if (const auto found = kKernels.find(name); found != kKernels.end()) return found->second;
  std::vector<std::string> known;
  for (const auto& [text, kernel] : kKernels) known.push_back(text);
  throw UsageError(text("[", kWho, "] unknown kernel '", name, "'", suggestion(name, known)));
}

LayerKernels read_kernels(std::string_view text) {
  LayerKernels kernels;
  std::array<bool, kPrecisions.size()> seen = {};
  for (std::string_view part : split(text, ',')) {
    const std::size_t equals = part.find('=');
    const std::string_view name = part.substr(0, equals);
    const auto precision =
        std::ranges::find(kPrecisions, name, [](Precision p) { return name_of(p); });
    require(equals != std::string_view::npos && precision != kPrecisions.end(), kWho, "'", part,
            "' is not fp32=…, bf16=… or fp16=…", kWayOut);
    kernels.of(*precision) = kernel_named(part.substr(equals + 1));
    seen[static_cast<std::size_t>(precision - kPrecisions.begin())] = true;
  }
  for (std::size_t i = 0; i < seen.size(); ++i)
    require(seen[i], kWho, "'", text, "' names no kernel for ", name_of(kPrecisions[i]), kWayOut);
  return kernels;
}

}  // namespace

const ConvolutionKernel& LayerKernels::of(Precision precision) const {
  switch (precision) {
    case Precision::Fp32:
      return fp32;
    case Precision::Bf16:
      return bf16;
    case Precision::Fp16:
      return fp16;
    case Precision::Int8:
      break;
  }
  throw UsageError("[KernelChoices] there are no floating-point kernels for int8 layers");
}

ConvolutionKernel& LayerKernels::of(Precision precision) {
  return const_cast<ConvolutionKernel&>(std::as_const(*this).of(precision));
}

const ConvolutionKernel& KernelChoices::of(std::int64_t layer, Precision precision) const {
  return layers.at(static_cast<std::size_t>(layer)).of(precision);
}

std::vector<ConvolutionKernel> kernel_candidates(Precision precision,
                                                 const ConvolutionGeometry& geometry,
                                                 c10::Device device) {
  if (!device.is_cpu()) return {fixed_kernel(precision, geometry, device)};
  std::vector<ConvolutionKernel> candidates;
  for (const auto algorithm : {ConvolutionAlgorithm::Gemm, ConvolutionAlgorithm::Stock}) {
    if (algorithm == ConvolutionAlgorithm::Gemm && !gemm_computes(geometry)) continue;
    candidates.push_back({algorithm, Arithmetic::Native});
    if (precision != Precision::Fp32) candidates.push_back({algorithm, Arithmetic::Fp32});
  }
  return candidates;
}

ConvolutionKernel fixed_kernel(Precision precision, const ConvolutionGeometry& geometry,
                               c10::Device device) {
  const ConvolutionKernel product = fixed_product_kernel(precision, device);
  if (!device.is_cpu()) return product;
  if (gemm_computes(geometry)) return {ConvolutionAlgorithm::Gemm, product.arithmetic};
  // libtorch's 16-bit convolutions on a CPU range from a little to a thousand times slower.
  return {ConvolutionAlgorithm::Stock,
          precision == Precision::Fp32 ? Arithmetic::Native : Arithmetic::Fp32};
}

ConvolutionKernel fixed_product_kernel(Precision precision, c10::Device device) {
  return {ConvolutionAlgorithm::Stock,
          missing_hardware(precision, device).empty() ? Arithmetic::Native : Arithmetic::Fp32};
}

std::string name_of(ConvolutionKernel kernel) {
  const auto found =
      std::ranges::find(kKernels, kernel, [](const auto& entry) { return entry.second; });
  return found->first;
}

std::string to_text(const KernelChoices& choices) {
  std::string text;
  std::vector<bool> written(choices.layers.size(), false);
  for (std::size_t i = 0; i < choices.layers.size(); ++i) {
    if (written[i]) continue;
    std::vector<std::size_t> alike;
    for (std::size_t j = i; j < choices.layers.size(); ++j)
      if (choices.layers[j] == choices.layers[i]) {
        alike.push_back(j);
        written[j] = true;
      }
    if (!text.empty()) text += ';';
    text += ranges_text(alike) + ':' + kernels_text(choices.layers[i]);
  }
  return text;
}

KernelChoices kernel_choices_from(std::string_view text, std::int64_t layers) {
  KernelChoices choices;
  choices.layers.resize(static_cast<std::size_t>(layers));
  std::vector<bool> named(choices.layers.size(), false);
  for (std::string_view group : split(text, ';')) {
    if (group.empty()) continue;
    const std::size_t colon = group.find(':');
    require(colon != std::string_view::npos, kWho, "'", group, "' is not <layers>:<kernels>",
            kWayOut);
    const LayerKernels kernels = read_kernels(group.substr(colon + 1));
    for (std::string_view range : split(group.substr(0, colon), ',')) {
      const std::size_t dash = range.find('-');
      const std::int64_t first = layer_number(range.substr(0, dash), layers);
      const std::int64_t last =
          dash == std::string_view::npos ? first : layer_number(range.substr(dash + 1), layers);
      require(first <= last, kWho, "'", range, "' runs backwards", kWayOut);
      for (auto i = static_cast<std::size_t>(first); i <= static_cast<std::size_t>(last); ++i) {
        require(!named[i], kWho, "layer ", i, " is named twice", kWayOut);
        choices.layers[i] = kernels;
        named[i] = true;
      }
    }
  }
  for (std::size_t i = 0; i < named.size(); ++i)
    require(named[i], kWho, "layer ", i, " of ", layers, " has no kernels", kWayOut);
  return choices;
}

}  // namespace triaccel
