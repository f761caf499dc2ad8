#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "triaccel/base/error.h"
#include "triaccel/base/nearest_name.h"
#include "triaccel/formats/bad_data.h"
#include "triaccel/optim/optimizer_options.h"
#include "triaccel/policies/memory/data_placement.h"
#include "triaccel/policies/policy_options.h"

namespace triaccel {

/// The names of an enum's values, in the order of its enumerators; choices.h specialises it.
template <typename Enum>
inline constexpr std::array<std::string_view, 0> kChoiceNames = {};

/// "must be one of a, b or c, got 'd'; did you mean 'b'?"
inline std::string not_one_of(std::string_view written, const std::vector<std::string>& known) {
  std::string all;
  for (std::size_t i = 0; i < known.size(); ++i)
    all += (i == 0 ? "" : i + 1 == known.size() ? " or " : ", ") + known[i];
  const std::string near = nearest_name(written, known);
  return text("must be ", known.size() > 2 ? "one of " : "", all, ", got '", written, "'",
              near.empty() ? "" : text("; did you mean '", near, "'?"));
}

/// A value of an enum that also goes by its name: programs may write config.train.method = "amp".
/// A name is parsed where it is assigned; an unknown one is a UsageError that lists the others.
template <typename Enum>
class Choice {
 public:
  constexpr Choice(Enum value) : value_(value) {}
  Choice(std::string_view name) : value_(parse(name)) {}
  Choice(const std::string& name) : Choice(std::string_view(name)) {}
  Choice(const char* name) : Choice(std::string_view(name)) {}

  static std::vector<std::string> names() {
    return {kChoiceNames<Enum>.begin(), kChoiceNames<Enum>.end()};
  }

  static std::optional<Choice> find(std::string_view name) {
    const auto& all = kChoiceNames<Enum>;
    const auto found = std::ranges::find(all, name);
    if (found == all.end()) return {};
    return Choice(static_cast<Enum>(found - all.begin()));
  }

  constexpr std::string_view name() const {
    return kChoiceNames<Enum>[static_cast<std::size_t>(value_)];
  }
  constexpr operator Enum() const { return value_; }
  constexpr operator std::string_view() const { return name(); }
  operator std::string() const { return std::string(name()); }

  friend constexpr bool operator==(Choice a, Choice b) { return a.value_ == b.value_; }
  friend constexpr bool operator==(Choice a, Enum b) { return a.value_ == b; }
  friend std::ostream& operator<<(std::ostream& out, Choice choice) { return out << choice.name(); }

 private:
  static Enum parse(std::string_view name) {
    const std::optional<Choice> found = find(name);
    if (!found) throw UsageError(not_one_of(name, names()));
    return *found;
  }

  Enum value_;
};

/// fp32: everything in FP32, TF32 off. amp: libtorch's autocast. triaccel: the control loop.
/// zo: zeroth-order estimates for every layer. elasticzo: backpropagation for the last ones.
/// elasticzo-int8: the same in integers.
enum class TrainMethod { Fp32, Amp, Triaccel, Zo, ElasticZo, ElasticZoInt8 };
enum class LayerPrecision { Auto, Off, Fp32, Bf16, Fp16 };
enum class CurvatureSource { FisherGram, Hessian, Off };
enum class CurvatureBlock { Weight, Layer };
enum class BatchGrowth { Schedule, Free };
enum class BatchRate { Auto, None, Linear, Sqrt, AdaScale };
enum class Int8Conventions { Sample, Paper };
enum class ActivationRounding { Dither, Stochastic, Nearest };
enum class Stem { ImageNet, Cifar };
enum class WeightInit { Auto, Torch, Kaiming };
enum class MemoryLayout { Auto, Contiguous, ChannelsLast };
enum class DeviceName { Auto, Cpu, Cuda };
enum class GraphCapture { Auto, Off };
/// Whether a budget may be kept by means that change gradients or weights.
enum class LossyMeans { Auto, Never };
/// What is done for a budget when a run is put together: memory is planned so that training steps
/// fit, or everything stays as the configuration has it. Not an option.
enum class UnderBudget { PlanMemory, KeepAll };
/// When weights are rounded to 16 bits: all at the start of a step, or each where it is used.
enum class WeightCasts { Step, Layer };
/// auto: built-in sets fail, own data skips.
enum class BadDataMode { Auto, Fail, Skip, Report };

using Names2 = std::array<std::string_view, 2>;
using Names3 = std::array<std::string_view, 3>;
using Names4 = std::array<std::string_view, 4>;
using Names5 = std::array<std::string_view, 5>;

template <>
inline constexpr std::array<std::string_view, 6> kChoiceNames<TrainMethod> = {
    "fp32", "amp", "triaccel", "zo", "elasticzo", "elasticzo-int8"};
template <>
inline constexpr auto kChoiceNames<OptimizerKind> = kOptimizerNames;
template <>
inline constexpr Names3 kChoiceNames<StateFormat> = {"fp32", "fp8", "host"};
template <>
inline constexpr Names2 kChoiceNames<PolicySet> = {"paper", "robust"};
template <>
inline constexpr Names5 kChoiceNames<LayerPrecision> = {"auto", "off", "fp32", "bf16", "fp16"};
template <>
inline constexpr Names3 kChoiceNames<CurvatureSource> = {"fisher_gram", "hessian", "off"};
template <>
inline constexpr Names3 kChoiceNames<BatchMode> = {"off", "elastic", "micro"};
template <>
inline constexpr Names2 kChoiceNames<CurvatureBlock> = {"weight", "layer"};
template <>
inline constexpr Names2 kChoiceNames<BatchGrowth> = {"schedule", "free"};
template <>
inline constexpr Names5 kChoiceNames<BatchRate> = {"auto", "none", "linear", "sqrt", "adascale"};
template <>
inline constexpr Names2 kChoiceNames<Int8Conventions> = {"sample", "paper"};
template <>
inline constexpr Names3 kChoiceNames<ActivationRounding> = {"dither", "stochastic", "nearest"};
template <>
inline constexpr Names2 kChoiceNames<Stem> = {"imagenet", "cifar"};
template <>
inline constexpr Names3 kChoiceNames<WeightInit> = {"auto", "torch", "kaiming"};
template <>
inline constexpr Names3 kChoiceNames<MemoryLayout> = {"auto", "contiguous", "channels-last"};
template <>
inline constexpr Names4 kChoiceNames<BadDataMode> = {"auto", "fail", "skip", "report"};
template <>
inline constexpr Names3 kChoiceNames<DataPlacement> = {"auto", "device", "host"};
template <>
inline constexpr Names3 kChoiceNames<DeviceName> = {"auto", "cpu", "cuda"};
template <>
inline constexpr Names2 kChoiceNames<GraphCapture> = {"auto", "off"};
template <>
inline constexpr Names2 kChoiceNames<LossyMeans> = {"auto", "never"};
template <>
inline constexpr Names2 kChoiceNames<WeightCasts> = {"step", "layer"};

/// How the tensors that autograd saves for backward are kept: raw, lossless, offloaded, compressed,
/// bounded, or the name of a registered codec. "coded" is the former name of "compressed".
class ActivationMode {
 public:
  ActivationMode(std::string_view name) : name_(name == kFormerName ? "compressed" : name) {}
  ActivationMode(const std::string& name) : ActivationMode(std::string_view(name)) {}
  ActivationMode(const char* name) : ActivationMode(std::string_view(name)) {}

  static constexpr std::string_view kFormerName = "coded";

  const std::string& name() const { return name_; }
  operator const std::string&() const { return name_; }
  bool saves_exactly() const {
    return name_ == "raw" || name_ == "lossless" || name_ == "offloaded";
  }
  bool plans_bits() const { return name_ == "compressed" || name_ == "bounded"; }

  friend bool operator==(const ActivationMode& a, const ActivationMode& b) = default;
  friend std::ostream& operator<<(std::ostream& out, const ActivationMode& mode) {
    return out << mode.name_;
  }

 private:
  std::string name_;
};

/// The modes --activations takes.
std::vector<std::string> activation_modes();

}  // namespace triaccel
