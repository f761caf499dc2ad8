#include "triaccel/kernels/restore_if_skipped.h"

#include <cstring>

#include "triaccel/kernels/cpu/chunk_loop.h"

namespace triaccel::kernels::cpu {

void restore_if_skipped(std::span<const TensorEntry> tensors, const StepControl* control) {
  if (!control->skip) return;
  for_each_chunk(tensors, [&](const TensorList& list, ChunkRange range, std::int64_t) {
    std::memcpy(list.parameter[range.index] + range.begin, list.state1[range.index] + range.begin,
                static_cast<std::size_t>(range.end - range.begin) * sizeof(float));
  });
}

}  // namespace triaccel::kernels::cpu
