#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

namespace triaccel {

/// Reads image `number` as [channels][height][width] bytes; called from several threads.
using ImageReader = std::function<void(std::int64_t number, std::span<std::uint8_t> pixels)>;

/// Images that are not resident: worker threads read those of the next steps ahead of time, and
/// prepare() copies those of one step to the device.
///
/// The device holds one window of images per power of two of samples. A window never moves and
/// serves all steps whose number of samples lies in its range, so that what is captured for a
/// number of samples always finds its images in the same place.
class ImageStream {
 public:
  ImageStream(ImageReader read, std::int64_t count, std::array<std::int64_t, 3> shape,
              c10::Device device);
  ~ImageStream();
  ImageStream(const ImageStream&) = delete;
  ImageStream& operator=(const ImageStream&) = delete;

  /// Waits for the images `now` and copies them to their window; starts reading `next`. Throws what
  /// the reader threw.
  void prepare(std::span<const std::int64_t> now, std::span<const std::int64_t> next);

  const at::Tensor& window() const { return windows_[current_]; }  // uint8 [rows, C, H, W]
  const at::Tensor& row_of() const { return row_of_; }  // int64 [count]: row in the window, or -1
  std::int64_t bytes() const;                           // on the device

 private:
  /// One image on its way.
  struct Image {
    enum class State { Waiting, Reading, Done };
    State state = State::Waiting;
    std::vector<std::uint8_t> pixels = {};
    std::exception_ptr failure = {};
  };
  using Images = std::map<std::int64_t, std::shared_ptr<Image>>;

  void work();
  Images request(std::span<const std::int64_t> now, std::span<const std::int64_t> next);
  void fill_window(std::span<const std::int64_t> now, const Images& images);

  ImageReader read_;
  std::array<std::int64_t, 3> shape_;
  c10::Device device_;
  std::vector<at::Tensor> windows_;  // [k]: for up to 2^k samples; undefined until needed
  std::size_t current_ = 0;
  at::Tensor row_of_;
  at::Tensor device_ids_;                // those in the window
  std::vector<std::int64_t> in_window_;  // likewise, on the host

  std::mutex mutex_;
  std::condition_variable wanted_, done_;
  std::deque<std::pair<std::int64_t, std::shared_ptr<Image>>> queue_;
  Images images_;  // read ahead
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace triaccel
