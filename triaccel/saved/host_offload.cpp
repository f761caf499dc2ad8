#include "triaccel/saved/host_offload.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "triaccel/device/cpu_memory.h"
#include "triaccel/device/cuda_memory.h"
#include "triaccel/device/side_stream.h"

namespace triaccel {
namespace {

/// Of a pass's bytes, what may lie on the device next to what is read: one part in so many.
constexpr std::int64_t kParts = 16;

/// Addresses keep their place modulo this, since kernels may choose by it how they add.
constexpr std::uintptr_t kAddressAlignment = 64;

}  // namespace

/// The tensors of a forward pass so far, in its order.
struct HostOffload::Pass {
  std::vector<std::weak_ptr<Slot>> slots;
  std::int64_t bytes = 0, largest = 0;

  std::int64_t bound() const { return std::max(largest, bytes / kParts); }
};

/// Shared by all records, which may outlive the store. Everything but `resident` is under the
/// mutex.
struct HostOffload::State {
  explicit State(c10::Device device) : of_steps(device), of_callers(device) {}

  struct Streams {
    SideStream out, in;
  };

  /// Enqueues a copy; on a CPU it is done at once.
  SideStream::Work copy(SideStream Streams::*stream, void* to, const void* from, std::int64_t bytes,
                        std::vector<at::Tensor> held) {
    if (!streams) {
      std::memcpy(to, from, static_cast<std::size_t>(bytes));
      return {};
    }
    return ((*streams).*stream).run([&] { copy_cuda_bytes(to, from, bytes); }, std::move(held));
  }

  void forget_leaving();

  std::mutex mutex;
  std::optional<Streams> streams;  // none on a CPU, nor before the first tensor
  HostArena of_steps, of_callers;
  std::deque<std::shared_ptr<Slot>> leaving;  // on their way out, the oldest first
  std::atomic<std::int64_t> resident = 0;     // bytes of all Slot::on_device
};

/// One tensor.
struct HostOffload::Slot {
  Slot(std::shared_ptr<State> state, std::shared_ptr<Pass> pass, const at::Tensor& dense)
      : owner(std::move(state)),
        of(std::move(pass)),
        bytes(static_cast<std::int64_t>(dense.nbytes())),
        shift(static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(dense.const_data_ptr()) %
                                        kAddressAlignment)),
        options(dense.options().requires_grad(false)) {}
  ~Slot() { let_go(); }
  Slot(const Slot&) = delete;
  Slot& operator=(const Slot&) = delete;

  void put_on_device(at::Tensor tensor) {
    on_device = std::move(tensor);
    owner->resident += bytes;
  }
  at::Tensor let_go() {
    if (on_device.defined()) owner->resident -= bytes;
    return std::exchange(on_device, {});
  }

  /// Enqueues its copy back.
  void bring_back();
  /// Enqueues those of the tensors before it, as far as the bound allows and memory suffices.
  void bring_back_ahead() const;
  at::Tensor fetch();

  std::shared_ptr<State> owner;
  std::shared_ptr<Pass> of;
  std::size_t number = 0;     // in the pass
  std::int64_t bytes, shift;  // of the elements; of their address, in bytes
  at::TensorOptions options;
  std::shared_ptr<std::byte> host;
  SideStream::Work out, in;  // copies; none: waited for, or never enqueued
  at::Tensor on_device;      // its elements in one dimension, on their way out or ahead
};

void HostOffload::State::forget_leaving() {
  for (const std::shared_ptr<Slot>& slot : leaving) slot->let_go();
  leaving.clear();
}

void HostOffload::Slot::bring_back() {
  const MemoryPurposeScope purpose(MemoryPurpose::Activations);
  const auto element = static_cast<std::int64_t>(options.dtype().itemsize());
  const at::Tensor memory = at::empty({shift + bytes}, options.dtype(at::kByte));
  at::Tensor elements = at::empty({0}, options);
  elements.set_(memory.storage(), shift / element, {bytes / element}, {1});
  if (owner->streams) owner->streams->in.come_after(out);
  in = owner->copy(&State::Streams::in, elements.mutable_data_ptr(), host.get(), bytes, {elements});
  put_on_device(std::move(elements));
}

void HostOffload::Slot::bring_back_ahead() const {
  for (std::size_t i = number; i-- > 0;) {
    const std::shared_ptr<Slot> next = of->slots[i].lock();
    if (!next || next->on_device.defined()) continue;
    if (owner->resident + next->bytes > of->bound()) return;
    try {
      next->bring_back();
    } catch (const c10::OutOfMemoryError&) {
      return;  // it is copied when it is asked for
    }
  }
}

at::Tensor HostOffload::Slot::fetch() {
  const at::NoGradGuard no_grad;
  const std::scoped_lock lock(owner->mutex);
  if (!on_device.defined()) bring_back();
  // Whoever frees it frees it for the stream that reads it.
  std::exchange(out, {}).wait();
  std::exchange(in, {}).wait();
  at::Tensor elements = let_go();
  std::erase_if(owner->leaving,
                [this](const std::shared_ptr<Slot>& slot) { return slot.get() == this; });
  bring_back_ahead();
  return elements;
}

HostOffload::HostOffload(c10::Device device)
    : state_(std::make_shared<State>(device)), pass_(std::make_shared<Pass>()) {}

HostOffload::~HostOffload() { abandon_pass(); }

void HostOffload::begin_pass(bool in_step) {
  end_pass();
  pass_ = std::make_shared<Pass>();
  in_step_ = in_step;
  arena().begin_pass();
}

void HostOffload::end_pass() {
  const std::scoped_lock lock(state_->mutex);
  if (state_->streams) {
    state_->streams->out.join();
    state_->streams->in.join();
  }
  state_->forget_leaving();
}

void HostOffload::abandon_pass() {
  const std::scoped_lock lock(state_->mutex);
  if (state_->streams) {
    state_->streams->out.abandon();
    state_->streams->in.abandon();
  }
  state_->forget_leaving();
}

SavedRecord HostOffload::keep(const at::Tensor& dense) {
  const at::NoGradGuard no_grad;
  const std::scoped_lock lock(state_->mutex);
  const auto slot = std::make_shared<Slot>(state_, pass_, dense);
  if (dense.is_cuda() && !state_->streams) state_->streams.emplace();
  slot->number = pass_->slots.size();
  slot->host = arena().room(slot->bytes);
  pass_->slots.push_back(slot);
  pass_->bytes += slot->bytes;
  pass_->largest = std::max(pass_->largest, slot->bytes);
  std::deque<std::shared_ptr<Slot>>& leaving = state_->leaving;
  leaving.push_back(slot);
  slot->put_on_device(dense.tensor_data().as_strided({dense.numel()}, {1}));
  slot->out = state_->copy(&State::Streams::out, slot->host.get(), slot->on_device.const_data_ptr(),
                           slot->bytes, {});
  while (state_->resident > pass_->bound() && leaving.size() > 1) {
    leaving.front()->out.wait();  // only then may others write there
    leaving.front()->let_go();
    leaving.pop_front();
  }
  return {.bytes = slot->bytes, .decode = [slot] { return slot->fetch(); }};
}

HostArena& HostOffload::arena() { return in_step_ ? state_->of_steps : state_->of_callers; }

std::int64_t HostOffload::host_bytes() const {
  return state_->of_steps.bytes() + state_->of_callers.bytes();
}

}  // namespace triaccel
