#pragma once

#include <c10/core/Device.h>

#include <memory>

namespace triaccel {

/// On a GPU, makes a stream other than the default one the current stream of this thread until the
/// scope ends: only work on such a stream can be captured. Nothing on a CPU.
class [[nodiscard]] WorkStream {
 public:
  explicit WorkStream(c10::Device device);
  ~WorkStream();
  WorkStream(const WorkStream&) = delete;
  WorkStream& operator=(const WorkStream&) = delete;

 private:
  struct Guard;
  std::unique_ptr<Guard> guard_;
};

}  // namespace triaccel
