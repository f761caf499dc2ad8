#include "triaccel/saved/recomputed_segments.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <mutex>
#include <set>
#include <utility>

#include "triaccel/base/error.h"
#include "triaccel/device/cpu_memory.h"

namespace triaccel {
namespace {

/// True until the scope ends.
class [[nodiscard]] Inside {
 public:
  explicit Inside(bool& inside) : inside_(inside) { inside_ = true; }
  ~Inside() { inside_ = false; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  bool& inside_;
};

/// Until the scope ends the generator, if any, draws what it drew from `state` on.
class [[nodiscard]] Draws {
 public:
  Draws(at::Generator generator, const at::Tensor& state) : generator_(std::move(generator)) {
    if (!generator_.defined()) return;
    now_ = generator_.get_state();
    generator_.set_state(state);
  }
  ~Draws() {
    if (generator_.defined()) generator_.set_state(now_);
  }
  Draws(const Draws&) = delete;
  Draws& operator=(const Draws&) = delete;

 private:
  at::Generator generator_;
  at::Tensor now_;
};

}  // namespace

/// What a segment saved in forward: kept until the segment ends, then dropped and recomputed.
struct RecomputedSegments::Segment final : SavedTensorKeeper,
                                           std::enable_shared_from_this<Segment> {
  /// One saved tensor; its node in autograd's graph holds the slot as long as it may ask for it.
  struct Slot {
    at::Tensor tensor;  // undefined: dropped
    std::int64_t elements;
    at::ScalarType type;
  };

  /// Takes the tensors that the second forward saves, in the order of the first.
  class Refill final : public SavedTensorKeeper {
   public:
    explicit Refill(Segment& segment) : segment_(segment) {}

    std::function<at::Tensor()> keep(const at::Tensor& tensor) override {
      segment_.refill(taken_++, tensor);
      return [] { return at::Tensor(); };  // nobody differentiates this graph
    }
    std::size_t taken() const { return taken_; }

   private:
    Segment& segment_;
    std::size_t taken_ = 0;
  };

  std::function<at::Tensor()> keep(const at::Tensor& tensor) override {
    auto slot = std::make_shared<Slot>(tensor.detach(), tensor.numel(), tensor.scalar_type());
    slots.push_back(slot);
    return [segment = shared_from_this(), slot = std::move(slot)] {
      const std::scoped_lock lock(segment->mutex);
      if (!slot->tensor.defined()) segment->recompute();
      return slot->tensor;
    };
  }

  /// Of what would be freed if it were dropped.
  std::int64_t bytes(const std::vector<at::Tensor>& kept) const {
    std::int64_t sum = 0;
    std::set<const void*> seen;
    for (const at::Tensor& tensor : kept) seen.insert(tensor.storage().data());
    for (const std::weak_ptr<Slot>& weak : slots)
      if (const auto slot = weak.lock())
        if (seen.insert(slot->tensor.storage().data()).second)
          sum += static_cast<std::int64_t>(slot->tensor.storage().nbytes());
    return sum;
  }

  void drop() {
    for (const std::weak_ptr<Slot>& weak : slots)
      if (const auto slot = weak.lock()) slot->tensor.reset();
  }

  void refill(std::size_t number, const at::Tensor& tensor) {
    if (number >= slots.size()) return;
    const auto slot = slots[number].lock();
    if (!slot) return;
    require(slot->elements == tensor.numel() && slot->type == tensor.scalar_type(), "run_segment",
            "a segment saves other activations when it is recomputed; its forward function must "
            "compute the same each time");
    slot->tensor = tensor.detach();
  }

  void recompute() {
    const MemoryPurposeScope purpose(MemoryPurpose::Activations);
    std::vector<at::Tensor> leaves;
    for (const auto& [tensor, requires_grad] : inputs)
      leaves.push_back(tensor.detach().set_requires_grad(requires_grad));
    Refill refill(*this);
    {
      const Draws draws(generator, state);
      const c10::AutoGradMode grad(true);
      const SavedTensorScope saved(refill);
      at::Tensor output;  // what is deferred is computed only while somebody holds it
      execution->again([&] { output = forward(leaves); });
    }
    require(refill.taken() == slots.size(), "run_segment", "a segment saves ", refill.taken(),
            " activations when it is recomputed, ", slots.size(),
            " before; its forward function must compute the same each time");
    inputs.clear();
  }

  std::vector<std::pair<at::Tensor, bool>> inputs;  // without history; whether they require one
  at::Generator generator;                          // undefined: none is drawn from
  at::Tensor state;                                 // of it, before the segment
  SegmentForward forward;
  std::shared_ptr<const Execution> execution;
  std::vector<std::weak_ptr<Slot>> slots;
  std::mutex mutex;
};

RecomputedSegments::RecomputedSegments(c10::Device device, Execution execution, double share)
    : execution_(std::make_shared<const Execution>(std::move(execution))), share_(share) {
  install_saved_tensor_engine();
  generators_.push_back(at::globalContext().defaultGenerator(at::Device(at::kCPU)));
  if (!device.is_cpu()) generators_.push_back(at::globalContext().defaultGenerator(device));
}

RecomputedSegments::~RecomputedSegments() = default;

void RecomputedSegments::begin_pass(bool captured) {
  captured_ = captured;
  std::int64_t bytes = 0;
  for (const Measured& segment : measured_) bytes += segment.bytes;
  bytes_allowed_ = static_cast<std::int64_t>(share_ * static_cast<double>(bytes));
  next_ = recomputed_ = 0;
  bytes_before_ = 0;
}

std::vector<at::Tensor> RecomputedSegments::generator_states() const {
  std::vector<at::Tensor> states;
  for (const at::Generator& generator : generators_) states.push_back(generator.get_state());
  return states;
}

at::Tensor RecomputedSegments::run(const std::vector<at::Tensor>& inputs,
                                   const SegmentForward& forward) {
  if (inside_ || !at::GradMode::is_enabled()) return forward(inputs);
  execution_->finish();
  const auto segment = std::make_shared<Segment>();
  const std::vector<at::Tensor> states = captured_ ? std::vector<at::Tensor>() : generator_states();
  at::Tensor output;
  {
    const SavedTensorScope saved(*segment);
    const Inside inside(inside_);
    output = forward(inputs);
    execution_->finish();
  }
  if (next_ == measured_.size()) measured_.emplace_back();
  Measured& measured = measured_[next_++];
  const bool wanted = bytes_before_ < bytes_allowed_ || bytes_allowed_ == 0;  // 0: not known yet
  bytes_before_ += measured.bytes;
  if (!captured_)
    measured = {.draws = !std::ranges::equal(states, generator_states(), at::equal),
                .bytes = segment->bytes(inputs)};
  const bool draws_again = generators_.size() == 1 && !captured_;
  if (!wanted || (measured.draws && !draws_again)) return output;
  if (measured.draws) {
    segment->generator = generators_[0];
    segment->state = states[0];
  }
  for (const at::Tensor& input : inputs)
    segment->inputs.emplace_back(input.detach(), input.requires_grad());
  segment->forward = forward;
  segment->execution = execution_;
  segment->drop();
  ++recomputed_;
  return output;
}

}  // namespace triaccel
