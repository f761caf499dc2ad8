#include "triaccel/layers/execution/branches.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace triaccel {
namespace {

// How many convolutions back one may have read the same map: those of a residual block.
constexpr std::size_t kMostReaders = 4;

// Of the map that is read: larger ones make kernels that fill a device by themselves.
constexpr std::size_t kMostBytes = 16 << 20;

}  // namespace

void Branch::run(const std::function<void()>& work, std::vector<at::Tensor> held) {
  newest_ = side_.branches.run_after(from_, work, std::move(held));
}

void Branch::keep(std::vector<at::Tensor> tensors) {
  std::ranges::move(tensors, std::back_inserter(kept_));
}

void Branch::join() { std::exchange(newest_, {}).wait(); }

void Branches::begin_pass(SideStreams* side) {
  side_ = side;
  readers_.clear();
  made_.clear();
  moved_.clear();
}

void Branches::end_pass() {
  for (const Made& made : made_) made.branch->join();
  clear();
}

bool Branches::may_part_behind(const at::Tensor& input) const {
  return side_ != nullptr && at::GradMode::is_enabled() && input.requires_grad() &&
         input.element_size() == 2 && input.nbytes() <= kMostBytes;
}

std::shared_ptr<Branch> Branches::at(const at::Tensor& input) const {
  if (!may_part_behind(input)) return nullptr;
  const auto reader = std::ranges::find_if(readers_, [&](const Reader& one) {
    return !one.input.expired() && one.input._unsafe_get_target() == input.unsafeGetTensorImpl() &&
           one.version == input._version();
  });
  return reader == readers_.end() ? nullptr : std::make_shared<Branch>(*side_, reader->behind);
}

void Branches::note_reader(const at::Tensor& input) {
  if (readers_.size() == kMostReaders) readers_.pop_front();
  readers_.push_back({.input = c10::weak_intrusive_ptr<c10::TensorImpl>(input.getIntrusivePtr()),
                      .version = static_cast<std::uint32_t>(input._version()),
                      .behind = side_->branches.mark()});
}

void Branches::note_made(std::shared_ptr<Branch> branch, const at::Tensor& input,
                         const at::Tensor& output) {
  made_.push_back({.branch = std::move(branch), .input = input, .output = output});
}

bool Branches::moves_first(const BatchNormCall& call) {
  if (side_ == nullptr || !call.running_mean || !call.running_mean->defined()) return true;
  return moved_.insert(call.running_mean->const_data_ptr()).second;
}

std::shared_ptr<Branch> Branches::branch_for(const BatchNormCall& call) {
  std::shared_ptr<Branch> branch = maker_of(call.input);
  if (!branch || !moves_first(call)) return nullptr;
  const auto made = std::ranges::find(made_, branch, &Made::branch);
  for (const auto& statistics : {call.running_mean, call.running_var})
    if (statistics && statistics->defined()) made->written.push_back(*statistics);
  return branch;
}

std::shared_ptr<Branch> Branches::maker_of(const at::Tensor& map) const {
  const auto found = std::ranges::find_if(made_, [&](const Made& made) {
    return made.output.is_same(map) && !made.branch->is_joined();
  });
  return found == made_.end() ? nullptr : found->branch;
}

bool Branches::has_pending() const {
  return !readers_.empty() ||
         std::ranges::any_of(made_, [](const Made& made) { return !made.branch->is_joined(); });
}

bool Branches::Made::concerns(const at::Tensor& tensor, bool writes) const {
  return tensor.is_alias_of(output) || (writes && tensor.is_alias_of(input)) ||
         std::ranges::any_of(written,
                             [&](const at::Tensor& one) { return tensor.is_alias_of(one); });
}

void Branches::touch(const at::Tensor& tensor, bool writes) {
  if (!tensor.defined()) return;
  if (writes && !tensor.grad_fn()) readers_.clear();
  for (const Made& made : made_)
    if (!made.branch->is_joined() && made.concerns(tensor, writes)) made.branch->join();
}

}  // namespace triaccel
