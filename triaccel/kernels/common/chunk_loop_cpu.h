#pragma once

#include <cstdint>
#include <span>

#include "triaccel/kernels/common/tensor_list.h"

namespace triaccel::kernels::cpu {

/// Calls body(list, range, chunk) for every chunk of all tensors, on all threads. `chunk` counts
/// over the whole span.
template <typename Body>
void for_each_chunk(std::span<const TensorEntry> tensors, Body body) {
  for_each_list(tensors,
                [&](const TensorList& list, std::int32_t chunks, std::int64_t chunks_before) {
#pragma omp parallel for schedule(static) if (chunks > 1)
                  for (std::int32_t chunk = 0; chunk < chunks; ++chunk)
                    body(list, locate_chunk(list, chunk), chunks_before + chunk);
                });
}

}  // namespace triaccel::kernels::cpu
