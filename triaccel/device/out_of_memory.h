#pragma once

#include <c10/util/Exception.h>

#include <utility>

#include "triaccel/base/error.h"

namespace triaccel {

/// Runs `work`; when a device's allocator gives up in it, throws our own OutOfMemory instead.
template <typename Work>
decltype(auto) catching_out_of_memory(Work&& work) {
  try {
    return std::forward<Work>(work)();
  } catch (const c10::OutOfMemoryError& error) {
    throw OutOfMemory(error.what_without_backtrace());
  }
}

}  // namespace triaccel
