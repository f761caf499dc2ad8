#include "triaccel/layers/convolution/kernel_choice_measure.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <exception>
#include <limits>
#include <tuple>
#include <unordered_map>

#include "triaccel/base/clock.h"
#include "triaccel/layers/execution/linear_product.h"
#include "triaccel/layers/execution/rounding.h"

namespace triaccel {
namespace {

constexpr double kHopelessOnOne = 8;      // times the fastest on one sample: not run on all
constexpr double kHopeless = 3;           // times the fastest on all: not run again
constexpr double kStartUpSeconds = 0.02;  // a kernel may generate code when it is first run
constexpr double kEnoughSeconds = 0.03;   // spent on one layer in one precision
constexpr int kMostRounds = 8;
constexpr double kNearly = 1.05;  // times the fastest: noise should not decide
constexpr double kNever = std::numeric_limits<double>::infinity();

bool same_shape(const LayerShape& a, const LayerShape& b) {
  const auto fields = [](const LayerShape& s) {
    return std::tie(s.kind, s.input, s.weight, s.channels_last, s.want_input_gradient,
                    s.geometry.stride, s.geometry.padding, s.geometry.dilation,
                    s.geometry.transposed, s.geometry.output_padding, s.geometry.groups);
  };
  return fields(a) == fields(b);
}

std::vector<ConvolutionKernel> candidates_for(const LayerShape& shape, Precision precision,
                                              c10::Device device) {
  if (shape.kind == LayerKind::Convolution)
    return kernel_candidates(precision, shape.geometry, device);
  std::vector<ConvolutionKernel> candidates = {{.arithmetic = Arithmetic::Native}};
  if (precision != Precision::Fp32) candidates.push_back({.arithmetic = Arithmetic::Fp32});
  return candidates;
}

ConvolutionKernel fixed_for(const LayerShape& shape, Precision precision, c10::Device device) {
  return shape.kind == LayerKind::Convolution ? fixed_kernel(precision, shape.geometry, device)
                                              : fixed_product_kernel(precision, device);
}

/// One layer in one precision with numbers to compute on.
class Trial {
 public:
  Trial(const LayerShape& shape, Precision precision) : shape_(shape), precision_(precision) {
    at::Generator generator = at::make_generator<at::CPUGeneratorImpl>();
    const auto numbers = [&](const std::vector<std::int64_t>& sizes) {
      const at::Tensor tensor = at::randn(sizes, generator);
      const bool image = shape.channels_last && sizes.size() == 4;
      return image ? tensor.contiguous(at::MemoryFormat::ChannelsLast) : tensor;
    };
    input_ = numbers(shape.input).to(scalar_type_of(precision));
    weight_ = numbers(shape.weight).mul_(0.05);
  }

  /// Seconds for forward and backward of the first `samples`; forward alone when that takes longer
  /// than `patience`. kNever for what libtorch cannot compute, or not in the memory there is.
  double seconds(ConvolutionKernel kernel, std::int64_t samples, double patience = kNever) const {
    const Stopwatch watch;
    try {
      run(kernel, input_.narrow(0, 0, samples), watch, patience);
    } catch (const std::exception&) {
      return kNever;
    }
    return watch.seconds();
  }

  std::int64_t samples() const { return input_.size(0); }

 private:
  void run(ConvolutionKernel kernel, const at::Tensor& input, const Stopwatch& watch,
           double patience) const {
    const at::ScalarType type = scalar_type_of(precision_);
    const GradientTypes types{
        .want_input = shape_.want_input_gradient, .input = type, .weight = type};
    if (shape_.kind == LayerKind::Convolution) {
      const at::Tensor output =
          convolution_forward(input, {weight_, shape_.geometry, precision_, kernel}, type);
      if (watch.seconds() < patience)
        convolution_backward(output, input, {weight_, shape_.geometry, precision_, kernel}, types);
    } else {
      const at::Tensor output =
          linear_forward(input, weight_, /*bias=*/{}, precision_, kernel.arithmetic, type);
      if (watch.seconds() < patience)
        linear_backward(output, input, weight_, precision_, kernel.arithmetic, types);
    }
  }

  const LayerShape& shape_;
  Precision precision_;
  at::Tensor input_;
  at::Tensor weight_;
};

struct Contender {
  ConvolutionKernel kernel;
  double seconds = kNever;  // the best of its runs
};

double best_of(const std::vector<Contender>& contenders) {
  return std::ranges::min(contenders, {}, &Contender::seconds).seconds;
}

void drop_slower(std::vector<Contender>& contenders, double factor) {
  const double limit = std::min(factor * best_of(contenders), std::numeric_limits<double>::max());
  std::erase_if(contenders, [&](const Contender& c) { return c.seconds > limit; });
}

/// Those worth running on all samples: some kernels are a thousand times slower than others, which
/// one sample shows. The second run is free of what is done once.
void try_one_sample(const Trial& trial, std::vector<Contender>& contenders) {
  for (Contender& contender : contenders) {
    const double patience = kHopelessOnOne * best_of(contenders) + kStartUpSeconds;
    contender.seconds = trial.seconds(contender.kernel, 1, patience);
    if (contender.seconds < 2 * patience)
      contender.seconds = std::min(contender.seconds, trial.seconds(contender.kernel, 1, patience));
  }
  drop_slower(contenders, kHopelessOnOne);
}

/// In turns, so that what else the machine does meets all of them.
void try_all_samples(const Trial& trial, std::vector<Contender>& contenders) {
  for (Contender& contender : contenders) contender.seconds = kNever;
  const Stopwatch watch;
  for (int round = 0; round < kMostRounds && contenders.size() > 1; ++round) {
    if (round >= 2 && watch.seconds() > kEnoughSeconds) break;
    for (Contender& contender : contenders)
      contender.seconds =
          std::min(contender.seconds, trial.seconds(contender.kernel, trial.samples()));
    drop_slower(contenders, kHopeless);
  }
}

ConvolutionKernel fastest(const LayerShape& shape, Precision precision, c10::Device device) {
  std::vector<Contender> contenders;
  if (device.is_cpu())
    for (const ConvolutionKernel& kernel : candidates_for(shape, precision, device))
      contenders.push_back({.kernel = kernel});
  if (contenders.size() > 1) {
    try {
      const Trial trial(shape, precision);
      try_one_sample(trial, contenders);
      try_all_samples(trial, contenders);
    } catch (const std::exception&) {  // no room for the numbers themselves
      contenders.clear();
    }
  }
  const ConvolutionKernel fixed = fixed_for(shape, precision, device);
  if (contenders.empty()) return fixed;
  const Contender& winner = *std::ranges::min_element(contenders, {}, &Contender::seconds);
  const auto usual = std::ranges::find(contenders, fixed, &Contender::kernel);
  const bool nearly = usual != contenders.end() && usual->seconds <= kNearly * winner.seconds;
  return nearly ? fixed : winner.kernel;
}

template <typename Choose>
KernelChoices choose_for_each(std::span<const LayerShape> layers, Choose choose) {
  KernelChoices choices;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const auto before = std::ranges::find_if(
        layers.first(i), [&](const LayerShape& other) { return same_shape(other, layers[i]); });
    const auto twin = static_cast<std::size_t>(before - layers.begin());
    if (twin < i) {
      choices.layers.push_back(choices.layers[twin]);
      continue;
    }
    LayerKernels kernels;
    if (layers[i].kind != LayerKind::Embedding)
      for (Precision precision : {Precision::Fp32, Precision::Bf16, Precision::Fp16})
        kernels.of(precision) = choose(layers[i], precision);
    choices.layers.push_back(kernels);
  }
  return choices;
}

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

KernelChoices measure_kernels(std::span<const LayerShape> layers, c10::Device device,
                              const MeasureOptions& options) {
  const Stopwatch watch;
  return choose_for_each(layers, [&](const LayerShape& shape, Precision precision) {
    return watch.seconds() < options.most_seconds ? fastest(shape, precision, device)
                                                  : fixed_for(shape, precision, device);
  });
}

KernelChoices fixed_kernels(std::span<const LayerShape> layers, c10::Device device) {
  return choose_for_each(layers, [&](const LayerShape& shape, Precision precision) {
    return fixed_for(shape, precision, device);
  });
}

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
