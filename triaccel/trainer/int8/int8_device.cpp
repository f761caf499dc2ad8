#include "triaccel/trainer/int8/int8_device.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "triaccel/data/epoch_order.h"
#include "triaccel/device/device_choice.h"
#include "triaccel/device/side_stream.h"

namespace triaccel {
namespace {

using int8::cuda::DeviceStepResult;

constexpr std::int64_t kLogged = 256;
constexpr std::int64_t kResultWords = sizeof(DeviceStepResult) / sizeof(std::int64_t);
static_assert(kResultWords * sizeof(std::int64_t) == sizeof(DeviceStepResult));

/// A step with neither backpropagation nor perturbation only evaluates the loss.
int8::StepOptions evaluating_only(int8::StepOptions options) {
  options.bp_layers = 0;
  options.head = int8::Head::Frozen;
  options.saturated_share = 65536;
  return options;
}

}  // namespace

Int8Device::Int8Device(const Int8Data& data, const int8::Network& network,
                       const int8::StepOptions& options, std::int64_t batch)
    : device_(choose_device("cuda")),
      batch_(batch),
      training_(network, static_cast<std::int32_t>(batch), options, data.train.exponent),
      evaluation_(network, static_cast<std::int32_t>(batch), evaluating_only(options),
                  data.test.exponent),
      rates_{options.rate_exponent, options.gradient_bits},
      train_(on_device(data.train)),
      test_(on_device(data.test)) {
  const auto bytes = at::TensorOptions(at::kByte).device(device_);
  memory_ = at::empty({std::max(training_.bytes(), evaluation_.bytes())}, bytes);
  log_ = at::empty({kLogged, kResultWords}, bytes.dtype(at::kLong));
  training_.place(memory_.mutable_data_ptr());
  evaluation_.place(memory_.mutable_data_ptr());
}

Int8Device::Samples Int8Device::on_device(const Int8Samples& samples) const {
  const auto copied = [&](const auto& from, at::IntArrayRef shape, at::ScalarType type) {
    at::Tensor to = at::empty(shape, at::TensorOptions(type));
    std::memcpy(to.mutable_data_ptr(), from.data(), to.nbytes());
    return to.to(device_);
  };
  return {.mantissas = copied(samples.mantissas, {samples.count, samples.inputs}, at::kChar),
          .labels = copied(samples.labels, {samples.count}, at::kInt)};
}

cudaStream_t Int8Device::stream() const { return current_cuda_stream(device_); }

void Int8Device::hold(int8::cuda::DeviceSteps& steps, const int8::State& state) {
  if (std::exchange(holder_, &steps) != &steps) steps.upload(state, stream());
}

void Int8Device::enqueue(const int8::cuda::DeviceSteps& steps, const Samples& samples,
                         const at::Tensor& ids) {
  const at::NoGradGuard no_grad;
  const std::int64_t count = ids.numel();
  at::Tensor inputs = at::from_blob(steps.inputs(), {count, samples.mantissas.size(1)},
                                    samples.mantissas.options());
  at::Tensor labels = at::from_blob(steps.labels(), {count}, samples.labels.options());
  at::index_select_out(inputs, samples.mantissas, 0, ids);
  at::index_select_out(labels, samples.labels, 0, ids);
  steps.enqueue(static_cast<std::int32_t>(count), stream());
  log_[logged_++].copy_(at::from_blob(steps.result(), {kResultWords}, log_.options()));
}

std::vector<int8::StepReport> Int8Device::read_log(const int8::cuda::DeviceSteps& steps) {
  const at::Tensor host = log_.narrow(0, 0, std::exchange(logged_, 0)).cpu();
  std::vector<int8::StepReport> reports;
  for (std::int64_t i = 0; i < host.size(0); ++i) {
    DeviceStepResult result;
    std::memcpy(&result, host.const_data_ptr<std::int64_t>() + i * kResultWords, sizeof result);
    reports.push_back(steps.report_of(result));
  }
  return reports;
}

void Int8Device::keep_reports() {
  if (logged_ > 0) std::ranges::move(read_log(training_), std::back_inserter(reports_));
}

void Int8Device::step(const int8::State& state, const at::Tensor& ids,
                      const int8::StepOptions& now) {
  hold(training_, state);
  const std::array rates{now.rate_exponent, now.gradient_bits};
  if (std::exchange(rates_, rates) != rates) training_.set_rates(rates[0], rates[1], stream());
  if (logged_ == kLogged) keep_reports();
  enqueue(training_, train_, ids);
  ahead_ = true;
}

std::vector<int8::StepReport> Int8Device::take_reports() {
  keep_reports();
  return std::exchange(reports_, {});
}

void Int8Device::fetch(int8::State& state) {
  if (std::exchange(ahead_, false)) training_.download(state, stream());
}

void Int8Device::forget() {
  holder_ = nullptr;
  ahead_ = false;
  logged_ = 0;
  reports_.clear();
}

int8::Evaluation Int8Device::evaluate(int8::State& state, bool test,
                                      std::span<const std::int64_t> ids) {
  fetch(state);
  keep_reports();
  hold(evaluation_, state);
  const at::Tensor samples = ids_on_device(ids, device_);
  int8::Evaluation sum;
  const auto add_log = [&] {
    for (const int8::StepReport& report : read_log(evaluation_)) {
      sum.correct += report.correct;
      sum.loss += report.loss[0];
    }
  };
  for (std::int64_t first = 0; first < samples.numel(); first += batch_) {
    if (logged_ == kLogged) add_log();
    enqueue(evaluation_, test ? test_ : train_,
            samples.narrow(0, first, std::min(batch_, samples.numel() - first)));
  }
  add_log();
  return sum;
}

}  // namespace triaccel
