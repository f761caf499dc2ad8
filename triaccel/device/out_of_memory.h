#pragma once

#include <c10/util/Exception.h>

#include <new>
#include <string_view>
#include <type_traits>
#include <utility>

#include "triaccel/base/error.h"
#include "triaccel/device/onednn_watch.h"

namespace triaccel {

/// Whether an error's text tells of memory: libraries beside libtorch's allocator (cuBLAS, cuDNN,
/// the CUDA driver) take some of their own and report its lack as any other failure.
bool tells_of_memory(std::string_view what);

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
    if (!tells_of_memory(error.what_without_backtrace())) throw;
    throw OutOfMemory(error.what_without_backtrace());
  } catch (const std::bad_alloc& error) {
    throw OutOfMemory(text("the host has no memory left (", error.what(), ")"));
  }
}

}  // namespace triaccel
