#include "triaccel/saved/saved_classes.h"

#include <algorithm>
#include <span>

namespace triaccel {
namespace {

using Name = std::string_view;

bool among(Name name, std::span<const Name> names) { return std::ranges::count(names, name) > 0; }

constexpr Name kNorms[] = {"NativeBatchNorm", "CudnnBatchNorm", "NativeLayerNorm",
                           "NativeGroupNorm", "triaccel::NormFusion"};
constexpr Name kRectifiers[] = {"Relu", "Threshold"};
constexpr Name kPoolsOfSizes[] = {"MaxPool2DWithIndices", "AvgPool2D", "AdaptiveAvgPool2D"};
constexpr Name kProducts[] = {"Convolution", "Addmm",
                              "Mm",          "Linear",
                              "Mul",         "triaccel::LayerNode",
                              "Mv",          "triaccel::GatedChannels"};
constexpr Name kActivations[] = {"Silu",     "Gelu",      "Hardswish", "Hardsigmoid",
                                 "Hardtanh", "Sigmoid",   "Softplus",  "Tanh",
                                 "Elu",      "LeakyRelu", "Mish"};
constexpr Name kLosses[] = {"LogSoftmax",
                            "NllLoss",
                            "NllLoss2D",
                            "MseLoss",
                            "SmoothL1Loss",
                            "BinaryCrossEntropy",
                            "BinaryCrossEntropyWithLogits"};

constexpr Name kAttention[] = {"Softmax", "SafeSoftmax", "Bmm", "Baddbmm"};

/// Operators that leave each element where it was, or choose among them.
constexpr Name kMoves[] = {"View",
                           "UnsafeView",
                           "ReshapeAlias",
                           "Transpose",
                           "Permute",
                           "Slice",
                           "Squeeze",
                           "Unsqueeze",
                           "Clone",
                           "ToCopy",
                           "MaxPool2DWithIndices",
                           "triaccel::PooledMaxima"};

constexpr std::int64_t kLongestVector = 4096;

bool is_float(ElementType type) {
  return type == ElementType::F32 || type == ElementType::BF16 || type == ElementType::F16;
}

/// One vector per sample: as a rule behind the last pooling, and little compared with the rest.
bool is_vector(const SavedFacts& facts) {
  return facts.per_sample && facts.sizes.size() <= 2 && facts.sizes.front() == 1 &&
         facts.sizes.back() <= kLongestVector;
}

bool is_attention(Name consumer) {
  return among(consumer, kAttention) || consumer.starts_with("ScaledDotProduct");
}

}  // namespace

bool is_rectified(std::string_view producer) {
  while (!producer.empty()) {
    const std::size_t end = producer.find(" < ");
    const std::string_view nearest = producer.substr(0, end);
    if (among(nearest, kRectifiers)) return true;
    if (!among(nearest, kMoves) || end == std::string_view::npos) return false;
    producer.remove_prefix(end + 3);
  }
  return false;
}

SavedClass saved_class(const SavedFacts& facts) {
  if (facts.constant) return SavedClass::Constant;
  if (facts.type == ElementType::Bool) return SavedClass::Sign;
  const bool is_norm = among(facts.consumer, kNorms);
  // Ours save inputs, another norm's too that is added in the same kernel, and ReLU masks.
  const bool is_own = facts.consumer.starts_with("triaccel::");
  if (is_norm && !is_own && facts.place > 0) return SavedClass::Statistics;
  if (facts.type == ElementType::I64 && facts.consumer == "MaxPool2DWithIndices")
    return SavedClass::Window;
  if (!is_float(facts.type)) return SavedClass::Other;
  if (among(facts.consumer, kRectifiers)) return SavedClass::Sign;
  if (among(facts.consumer, kPoolsOfSizes)) return SavedClass::Sizes;
  if (among(facts.consumer, kLosses) || is_vector(facts)) return SavedClass::Vector;
  if (is_norm) return SavedClass::NormInput;
  if (facts.consumer.starts_with("ScaledDotProduct") && facts.sizes.size() < 4)
    return SavedClass::Statistics;
  if (is_attention(facts.consumer)) return SavedClass::Attention;
  if (facts.two_valued) return SavedClass::Sign;
  if (among(facts.consumer, kProducts))
    return facts.rectified || is_rectified(facts.producer) ? SavedClass::Positive
                                                           : SavedClass::Factor;
  if (among(facts.consumer, kActivations)) return SavedClass::Nonlinear;
  return SavedClass::Other;
}

}  // namespace triaccel
