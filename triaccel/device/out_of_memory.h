#pragma once

#include <c10/util/Exception.h>

#include <cstdint>
#include <memory>
#include <new>
#include <string_view>
#include <type_traits>
#include <utility>

#include "triaccel/base/error.h"

namespace triaccel {

/// A matrix product that gets no memory for oneDNN goes by BLAS instead, and libtorch switches
/// oneDNN off for the rest of the process, with a warning (on Arm, where such products are
/// oneDNN's). Work in which that happened ran out of memory like any other; what comes after it
/// must be computed as before; and the warning, which holds a stack trace, is not shown.
class [[nodiscard]] OneDnnWatch {
 public:
  OneDnnWatch();
  ~OneDnnWatch();  // puts the switch back
  OneDnnWatch(const OneDnnWatch&) = delete;
  OneDnnWatch& operator=(const OneDnnWatch&) = delete;

  /// Throws OutOfMemory where it happened since.
  void check() const;

 private:
  bool switched_off() const;

  struct Warnings;

  bool was_on_;
  std::int64_t refusals_;
  c10::WarningHandler* shown_by_;  // before
  std::unique_ptr<Warnings> warnings_;
};

/// Whether an error's text reports a lack of memory: libraries allocate outside libtorch's
/// allocator (cuBLAS, cuDNN, the CUDA driver) and report it as any other failure.
bool is_out_of_memory(std::string_view what);

/// Runs `work`; when memory runs out in it, the device's or the host's, throws our own OutOfMemory
/// instead.
template <typename Work>
decltype(auto) catching_out_of_memory(Work&& work) {
  const OneDnnWatch onednn;
  try {
    if constexpr (std::is_void_v<std::invoke_result_t<Work>>) {
      std::forward<Work>(work)();
      onednn.check();
    } else {
      decltype(auto) result = std::forward<Work>(work)();
      onednn.check();
      return result;
    }
  } catch (const c10::OutOfMemoryError& error) {
    throw OutOfMemory(error.what_without_backtrace());
  } catch (const c10::Error& error) {
    if (!is_out_of_memory(error.what_without_backtrace())) throw;
    throw OutOfMemory(error.what_without_backtrace());
  } catch (const std::bad_alloc& error) {
    throw OutOfMemory(text("the host has no memory left (", error.what(), ")"));
  }
}

}  // namespace triaccel
