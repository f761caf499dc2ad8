#include "triaccel/layers/scope/layer_shapes.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <unordered_map>

namespace triaccel {
namespace {

class ShapeRecorder final : public OperatorHooks {
 public:
  ShapeRecorder(const std::vector<at::Tensor>& weights, std::int64_t factor) : factor_(factor) {
    for (std::size_t i = 0; i < weights.size(); ++i) by_address_[weights[i].const_data_ptr()] = i;
    shapes.resize(weights.size());
  }

  at::Tensor convolution(const ConvolutionCall& call) override {
    note(call.input, call.weight, LayerKind::Convolution, call.geometry);
    return OperatorHooks::convolution(call);
  }
  at::Tensor linear(const LinearCall& call) override {
    note(call.input, call.weight, LayerKind::Linear, {});
    return OperatorHooks::linear(call);
  }
  bool owns(const at::Tensor& matrix) const override {
    return by_address_.contains(matrix.const_data_ptr());
  }

  std::vector<LayerShape> shapes;

 private:
  void note(const at::Tensor& input, const at::Tensor& weight, LayerKind kind,
            const ConvolutionGeometry& geometry) {
    const auto found = by_address_.find(weight.const_data_ptr());
    if (found == by_address_.end()) return;
    LayerShape& shape = shapes[found->second];
    shape = {.kind = kind,
             .input = input.sizes().vec(),
             .weight = weight.sizes().vec(),
             .geometry = geometry,
             .channels_last = weight.dim() != 4 ||
                              weight.suggest_memory_format() == at::MemoryFormat::ChannelsLast,
             .want_input_gradient = found->second > 0};
    shape.input[0] *= factor_;
  }

  std::unordered_map<const void*, std::size_t> by_address_;
  std::int64_t factor_;
};

}  // namespace

std::vector<LayerShape> record_layer_shapes(
    const std::function<at::Tensor(const at::Tensor&)>& forward,
    const std::vector<at::Tensor>& weights, const at::Tensor& input, std::int64_t samples) {
  const at::NoGradGuard no_grad;
  ShapeRecorder recorder(weights, std::max<std::int64_t>(1, samples / input.size(0)));
  const OperatorScope scope(recorder);
  forward(input);
  return recorder.shapes;
}

}  // namespace triaccel
