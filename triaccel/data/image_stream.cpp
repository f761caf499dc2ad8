#include "triaccel/data/image_stream.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "triaccel/core/step_report.h"
#include "triaccel/device/cpu_memory.h"

namespace triaccel {

ImageStream::ImageStream(ImageReader read, std::int64_t count, std::array<std::int64_t, 3> shape,
                         c10::Device device)
    : read_(std::move(read)), shape_(shape), device_(device), windows_(63) {
  const MemoryPurposeScope purpose(MemoryPurpose::Data);
  row_of_ = at::full({count}, -1, at::TensorOptions(at::kLong).device(device));
  windows_[0] =
      at::empty({1, shape_[0], shape_[1], shape_[2]}, at::TensorOptions(at::kByte).device(device));
  const unsigned threads = std::clamp(std::thread::hardware_concurrency(), 1u, 32u);
  for (unsigned i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
}

ImageStream::~ImageStream() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wanted_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

std::int64_t ImageStream::bytes() const {
  std::int64_t sum = static_cast<std::int64_t>(row_of_.nbytes());
  for (const at::Tensor& window : windows_)
    if (window.defined()) sum += window.numel();
  return sum;
}

void ImageStream::work() {
  const auto bytes = static_cast<std::size_t>(shape_[0] * shape_[1] * shape_[2]);
  std::unique_lock lock(mutex_);
  for (;;) {
    wanted_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
    if (stopping_) return;
    const auto [number, image] = std::move(queue_.front());
    queue_.pop_front();
    image->state = Image::State::Reading;
    lock.unlock();
    try {
      image->pixels.resize(bytes);
      read_(number, image->pixels);
    } catch (...) {
      image->failure = std::current_exception();
    }
    lock.lock();
    image->state = Image::State::Done;
    done_.notify_all();
  }
}

/// What is on its way is kept, also for the step after; what nobody wants any more is dropped.
ImageStream::Images ImageStream::request(std::span<const std::int64_t> now,
                                         std::span<const std::int64_t> next) {
  Images wanted;
  const std::lock_guard lock(mutex_);
  queue_.clear();
  for (const auto& some : {now, next.first(std::min(next.size(), 2 * now.size()))})
    for (const std::int64_t number : some) {
      if (wanted.contains(number)) continue;
      const auto found = images_.find(number);
      const auto image = found != images_.end() ? found->second : std::make_shared<Image>();
      wanted.emplace(number, image);
      if (image->state == Image::State::Waiting) queue_.emplace_back(number, image);
    }
  images_ = wanted;
  wanted_.notify_all();
  return wanted;
}

void ImageStream::prepare(std::span<const std::int64_t> now, std::span<const std::int64_t> next) {
  if (now.empty()) return;
  if (std::ranges::equal(now, in_window_)) return;  // a step that is repeated
  const Images images = request(now, next);
  {
    std::unique_lock lock(mutex_);
    done_.wait(lock, [&] {
      return std::ranges::all_of(
          now, [&](std::int64_t number) { return images.at(number)->state == Image::State::Done; });
    });
  }
  for (const std::int64_t number : now)
    if (images.at(number)->failure) {
      const std::exception_ptr failure = images.at(number)->failure;
      const std::lock_guard lock(mutex_);
      images_.erase(number);  // the next call tries again
      std::rethrow_exception(failure);
    }
  fill_window(now, images);
}

void ImageStream::fill_window(std::span<const std::int64_t> now, const Images& images) {
  const MemoryPurposeScope purpose(MemoryPurpose::Data);
  const auto count = static_cast<std::int64_t>(now.size());
  const auto of_size = static_cast<std::size_t>(std::bit_width(now.size() - 1));
  at::Tensor& window = windows_[of_size];
  if (!window.defined())
    window = at::empty({std::int64_t{1} << of_size, shape_[0], shape_[1], shape_[2]},
                       windows_[0].options());
  in_window_.clear();  // until all is there
  // To a GPU through pinned memory, which the allocator keeps until the copy has been made.
  const auto host = at::TensorOptions().pinned_memory(!device_.is_cpu());
  at::Tensor ids = at::empty({count}, host.dtype(at::kLong));
  std::ranges::copy(now, ids.mutable_data_ptr<std::int64_t>());
  ids = ids.to(device_, /*non_blocking=*/true);
  const at::Tensor place = window.narrow(0, 0, count);
  const at::Tensor batch =
      device_.is_cpu() ? place : at::empty(place.sizes(), host.dtype(at::kByte));
  auto* out = batch.mutable_data_ptr<std::uint8_t>();
  for (const std::int64_t number : now) out = std::ranges::copy(images.at(number)->pixels, out).out;
  if (!device_.is_cpu()) place.copy_(batch, /*non_blocking=*/true);
  if (device_ids_.defined()) row_of_.index_fill_(0, device_ids_, -1);
  row_of_.index_copy_(0, ids, at::arange(count, ids.options()));
  device_ids_ = ids;
  current_ = of_size;
  in_window_.assign(now.begin(), now.end());
}

}  // namespace triaccel
