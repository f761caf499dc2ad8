#include "triaccel/optim/zeroth_order.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "triaccel/base/error.h"
#include "triaccel/base/random.h"
#include "triaccel/ops/tensors/tensor_state.h"
#include "triaccel/ops/update/multi_tensor.h"

namespace triaccel {
namespace {

constexpr std::int64_t kPartBytes = sizeof(kernels::PartialScore);
constexpr const char* kStateHistory = "zeroth_order/history";
constexpr const char* kStateGrid = "zeroth_order/grid";
constexpr const char* kStateSteps = "zeroth_order/steps";

// Separates the perturbations from other random streams of the seed.
constexpr std::uint64_t kPurpose = 0x7A6F;

const ZerothOrderOptions& checked(const ZerothOrderOptions& options) {
  constexpr std::string_view who = "ZerothOrder";
  require(options.directions >= 1 && options.directions <= kernels::kZoMostDirections, who,
          "directions must lie in [1, ", kernels::kZoMostDirections, "], got ", options.directions);
  require(options.momentum >= 0 && options.momentum < 1, who, "momentum must lie in [0, 1), got ",
          options.momentum);
  require(options.momentum_steps >= 1 && options.momentum_steps <= 64, who,
          "momentum_steps must lie in [1, 64], got ", options.momentum_steps);
  require(options.directions * options.momentum_steps <= 512 || options.momentum == 0, who,
          "directions times momentum_steps must not exceed 512");
  require(options.clip >= 0, who, "clip must not be negative, got ", options.clip);
  return options;
}

}  // namespace

ZerothOrder::ZerothOrder(const ZerothOrderOptions& options, std::vector<ParameterRef> parameters)
    : options_(checked(options)),
      tensors_("ZerothOrder", std::move(parameters), options.epsilon),
      memory_(options.momentum > 0 ? options.momentum_steps : 1) {
  const auto floats = at::TensorOptions(at::kFloat).device(tensors_.device());
  board_ = at::zeros({std::int64_t{sizeof(kernels::ZoBoard)}}, floats.dtype(at::kByte));
  history_ = at::zeros({memory_, options.directions}, floats);
  log_ = at::zeros({kStepsRemembered, options.directions}, floats);
  write_board();
}

kernels::ZoBoard* ZerothOrder::board() const {
  return reinterpret_cast<kernels::ZoBoard*>(board_.mutable_data_ptr<std::uint8_t>());
}

void ZerothOrder::write_board() {
  const kernels::ZoBoard now{.seed = mixed_hash(options_.seed, kPurpose),
                             .step = steps_,
                             .epsilon = static_cast<float>(options_.epsilon)};
  const at::Tensor host = at::empty({std::int64_t{sizeof now}}, at::kByte);
  std::memcpy(host.mutable_data_ptr(), &now, sizeof now);
  board_.copy_(host);
}

void ZerothOrder::follow(const std::vector<LayerPlan>& layers) {
  std::vector<bool> wanted;
  for (const LayerPlan& layer : layers)
    wanted.push_back(layer.gradient == GradientSource::ZerothOrder);
  if (wanted == layers_) return;
  tensors_.choose(wanted);
  const auto first = std::ranges::find(wanted, true);
  first_layer_ = first - wanted.begin();
  alone_ = std::ranges::count(wanted, false) == 0;
  layers_ = std::move(wanted);
}

std::int64_t ZerothOrder::evaluations() const {
  return options_.one_sided ? options_.directions + 1 : 2 * options_.directions;
}

void ZerothOrder::begin_step(std::int64_t passes) {
  passes_ = passes;
  rows_ = 0;
  losses_.reset();
}

void ZerothOrder::go_to(std::int64_t evaluation) {
  const auto place = static_cast<std::int32_t>(evaluation);
  if (options_.one_sided)
    move_to(evaluation == 0 ? kernels::ZoShift{} : kernels::ZoShift{place - 1, 1});
  else
    move_to({place / 2, place % 2 == 0 ? -1 : 1});
}

void ZerothOrder::move_to(kernels::ZoShift wanted) {
  const auto shift_by = [&](std::int32_t direction, std::int32_t multiple) {
    if (multiple == 0) return;
    kernels::ZoMove move = kernel_move();
    move.shift = {direction, multiple};
    move.history = nullptr;
    tensors_.move(move);
  };
  if (wanted.direction == at_.direction) {
    shift_by(wanted.direction, wanted.multiple - at_.multiple);
  } else {
    shift_by(at_.direction, -at_.multiple);
    at_ = {};
    shift_by(wanted.direction, wanted.multiple);
  }
  at_ = wanted;
}

void ZerothOrder::abandon_step(bool moved) {
  if (moved) go_back();
  at_ = {};
  losses_.reset();
}

at::Tensor ZerothOrder::losses(std::int64_t evaluation, std::int64_t pass, std::int64_t rows,
                               std::int64_t classes) {
  const std::int64_t bytes = kernels::cross_entropy_parts(rows, classes) * kPartBytes;
  if (!losses_.defined()) losses_ = at::zeros({evaluations(), passes_, bytes}, board_.options());
  ensure(bytes <= losses_.size(2), "the first pass is the largest");
  if (evaluation == 0) rows_ += rows;
  return losses_[evaluation][pass].narrow(0, 0, bytes);
}

void ZerothOrder::scale_losses(std::int64_t evaluation, const at::Tensor& factor) {
  static_assert(offsetof(kernels::PartialScore, loss) == 0 && kPartBytes == 2 * sizeof(double));
  const at::Tensor parts = losses_[evaluation].view(at::kDouble);
  parts.slice(/*dim=*/1, /*start=*/0, /*end=*/std::nullopt, /*step=*/2).mul_(factor);
}

kernels::ZoEstimate ZerothOrder::kernel_estimate(const at::Tensor& moments) const {
  auto* layer = reinterpret_cast<kernels::LayerMoments*>(moments.mutable_data_ptr<std::uint8_t>());
  return {.board = board(),
          .rule = {.directions = static_cast<std::int32_t>(options_.directions),
                   .memory = static_cast<std::int32_t>(memory_),
                   .one_sided = options_.one_sided,
                   .sign = options_.sign,
                   .clip = static_cast<float>(options_.clip)},
          .losses = {.parts = reinterpret_cast<const kernels::PartialScore*>(
                         losses_.const_data_ptr<std::uint8_t>()),
                     .parts_of_evaluation = losses_.stride(0) / kPartBytes,
                     .rows = rows_},
          .history = history_.mutable_data_ptr<float>(),
          .log = log_.mutable_data_ptr<float>(),
          .log_steps = kStepsRemembered,
          .moments = layer + first_layer_,
          .norm = alone_};
}

kernels::ZoMove ZerothOrder::kernel_move() const {
  return {.board = board(),
          .history = history_.const_data_ptr<float>(),
          .directions = static_cast<std::int32_t>(options_.directions),
          .memory = static_cast<std::int32_t>(memory_),
          .momentum = static_cast<float>(options_.momentum)};
}

void ZerothOrder::estimate(const at::Tensor& moments) {
  ensure(losses_.defined(), "the losses of a step come before its estimate");
  zo_estimate(kernel_estimate(moments), tensors_.device());
}

void ZerothOrder::update(const at::Tensor& learning_rates, const at::Tensor& step_control) {
  kernels::ZoMove move = kernel_move();
  move.shift = {at_.direction, -at_.multiple};
  move.learning_rates = learning_rates.const_data_ptr<float>();
  move.control = step_control_of("ZerothOrder::update", step_control, tensors_.device());
  tensors_.move(move);
  at_ = {};
  losses_.reset();
  kernels::ZoEstimate closing{.board = board(),
                              .rule = {.directions = move.directions, .memory = move.memory},
                              .history = history_.mutable_data_ptr<float>(),
                              .log = log_.mutable_data_ptr<float>(),
                              .log_steps = kStepsRemembered};
  zo_close(closing, move.control, tensors_.device());
}

void ZerothOrder::note_step(double learning_rate) {
  rates_.push_back(learning_rate);
  ++steps_;
}

bool ZerothOrder::must_take_steps() const {
  return static_cast<std::int64_t>(rates_.size()) >= kStepsRemembered;
}

std::vector<ZerothOrderStep> ZerothOrder::take_steps() {
  if (rates_.empty()) return {};
  const at::Tensor log = log_.cpu();
  const float* gradients = log.const_data_ptr<float>();
  std::vector<ZerothOrderStep> steps;
  std::int64_t step = steps_ - static_cast<std::int64_t>(rates_.size());
  for (const double rate : std::exchange(rates_, {})) {
    const float* from = gradients + step % kStepsRemembered * options_.directions;
    steps.push_back({step++, rate, std::vector<float>(from, from + options_.directions)});
  }
  return steps;
}

void ZerothOrder::redo(const ZerothOrderStep& step) {
  constexpr std::string_view who = "ZerothOrder::redo";
  require(step.step == steps_, who, "expected step ", steps_, ", got ", step.step);
  require(step.gradients.size() == static_cast<std::size_t>(options_.directions), who, "expected ",
          options_.directions, " projected gradients, got ", step.gradients.size());
  history_[steps_ % memory_].copy_(at::tensor(step.gradients));
  const at::Tensor rates = at::full({static_cast<std::int64_t>(layers_.size())},
                                    static_cast<float>(step.learning_rate), history_.options());
  kernels::ZoMove move = kernel_move();
  move.learning_rates = rates.const_data_ptr<float>();
  tensors_.move(move);
  ++steps_;
  write_board();
}

std::vector<StateView> ZerothOrder::state() const {
  return {tensor_state(kStateHistory, history_),
          number_state<std::int64_t>(kStateGrid, tensors_.exponents()),
          number_state<std::int64_t>(kStateSteps, {steps_})};
}

void ZerothOrder::restore(const StateMap& saved) {
  check_restorable(history_, saved, kStateHistory);
  auto grid = numbers_from<std::int64_t>(saved, kStateGrid,
                                         static_cast<std::int64_t>(tensors_.exponents().size()));
  const std::int64_t steps = numbers_from<std::int64_t>(saved, kStateSteps, 1).front();
  restore_tensor(history_, saved, kStateHistory);
  tensors_.set_exponents(std::move(grid));
  layers_.clear();  // chosen again, on the restored grids
  steps_ = steps;
  rates_.clear();
  at_ = {};
  write_board();
}

}  // namespace triaccel
