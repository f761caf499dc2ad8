#include "triaccel/device/first_product.h"

#include <ATen/ATen.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <stdexcept>
#include <thread>

#include "triaccel/base/error.h"

namespace triaccel {
namespace {

constexpr double kSecondsForAProduct = 20;  // it takes milliseconds

#if defined(__aarch64__)
constexpr bool kMayHang = true;
#else
constexpr bool kMayHang = false;
#endif

void multiply() {
  const at::Tensor matrix = at::ones({64, 64});
  if (at::mm(matrix, matrix)[0][0].item<float>() != 64) throw std::runtime_error("wrong product");
}

}  // namespace

bool ends_in_time(const std::function<void()>& work, double seconds) {
  const pid_t child = ::fork();
  if (child < 0) return true;  // nothing is known
  if (child == 0) {
    try {
      work();
    } catch (...) {  // also an end
    }
    ::_exit(0);
  }
  using Clock = std::chrono::steady_clock;
  const Clock::time_point deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                                        std::chrono::duration<double>(seconds));
  for (std::chrono::milliseconds pause(1);;
       pause = std::min(2 * pause, std::chrono::milliseconds(50))) {
    if (::waitpid(child, nullptr, WNOHANG) != 0) return true;
    if (Clock::now() >= deadline) break;
    std::this_thread::sleep_for(pause);
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  return false;
}

void check_first_product(bool always) {
  if ((!always && !kMayHang) || ends_in_time(multiply, kSecondsForAProduct)) return;
  throw Hang(text("the first matrix product did not end within ", kSecondsForAProduct,
                  " s: the BLAS library of libtorch hangs on this processor; on Arm set "
                  "NVPL_BLAS_DEBUG_CPU_TYPE=1 (no SVE), or use another build of torch"));
}

}  // namespace triaccel
