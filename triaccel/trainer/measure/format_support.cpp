#include "triaccel/trainer/measure/format_support.h"

#include <ATen/Context.h>
#include <torch/torch.h>

#include <algorithm>
#include <functional>

#include "triaccel/base/clock.h"
#include "triaccel/base/error.h"
#include "triaccel/device/device_choice.h"
#include "triaccel/device/out_of_memory.h"
#include "triaccel/layers/execution/rounding.h"

namespace triaccel {
namespace {

struct Operation {
  const char* name;
  std::function<at::Tensor(at::TensorOptions)> run;  // forward; the result is summed and taken back
};

std::vector<Operation> operations() {
  const auto with_gradient = [](at::Tensor tensor) { return tensor.requires_grad_(); };
  return {{"convolution",
           [=](at::TensorOptions options) {
             const at::Tensor x = with_gradient(at::ones({8, 32, 16, 16}, options));
             const at::Tensor w = with_gradient(at::ones({32, 32, 3, 3}, options));
             return at::conv2d(x, w, {}, 1, 1);
           }},
          {"linear",
           [=](at::TensorOptions options) {
             const at::Tensor x = with_gradient(at::ones({128, 256}, options));
             const at::Tensor w = with_gradient(at::ones({256, 256}, options));
             return at::linear(x, w);
           }},
          {"batch norm", [=](at::TensorOptions options) {
             const at::Tensor x = with_gradient(at::ones({8, 32, 16, 16}, options));
             return at::batch_norm(x, {}, {}, {}, {}, true, 0.1, 1e-5, false);
           }}};
}

/// On a CPU without BF16 instructions oneDNN refuses BF16 products: libtorch then warns with a
/// backtrace and switches it off. Neither outlasts this scope.
class [[nodiscard]] KeptOneDnn {
 public:
  KeptOneDnn() = default;
  ~KeptOneDnn() { at::globalContext().setUserEnabledMkldnn(was_on_); }
  KeptOneDnn(const KeptOneDnn&) = delete;
  KeptOneDnn& operator=(const KeptOneDnn&) = delete;

 private:
  OneDnnWatch without_warnings_;
  bool was_on_ = at::globalContext().userEnabledMkldnn();
};

/// Milliseconds of one forward and backward, the best of four, or of two that take long.
double milliseconds(const Operation& operation, at::TensorOptions options) {
  const KeptOneDnn one_dnn;
  constexpr double kLong = 100;
  double best = 1e9;
  for (int repeat = 0; repeat < 4 && (repeat < 2 || best < kLong); ++repeat) {
    const Stopwatch watch;
    operation.run(options).sum().backward();
    synchronize(options.device());
    best = std::min(best, 1e3 * watch.seconds());
  }
  return best;
}

}  // namespace

std::vector<FormatSupport> probe_formats(c10::Device device) {
  std::vector<FormatSupport> table;
  for (const Operation& operation : operations()) {
    double fp32 = 0;
    for (Precision precision : {Precision::Fp32, Precision::Bf16, Precision::Fp16}) {
      FormatSupport cell{.operation = operation.name, .precision = precision};
      try {
        const double ms =
            milliseconds(operation, at::TensorOptions(scalar_type_of(precision)).device(device));
        if (precision == Precision::Fp32) fp32 = ms;
        cell.speed = fp32 / ms;
        cell.why = missing_hardware(precision, device);
        cell.support = cell.why.empty() ? "native" : "emulated";
      } catch (const std::exception& error) {
        const std::string what = error.what();
        cell.support = "emulated";
        cell.why = "libtorch has no kernel here (" + what.substr(0, what.find('\n')) +
                   "): values are rounded and computed in FP32";
      }
      table.push_back(std::move(cell));
    }
  }
  return table;
}

}  // namespace triaccel
