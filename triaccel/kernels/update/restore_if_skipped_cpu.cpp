#include "triaccel/kernels/update/restore_if_skipped.h"

#include <cstring>

#include "triaccel/kernels/common/chunk_loop_cpu.h"

namespace triaccel::kernels::cpu {
namespace {

void copy_chunk(ChunkRange range, const float* from, float* to) {
  std::memcpy(to + range.begin, from + range.begin,
              static_cast<std::size_t>(range.end - range.begin) * sizeof(float));
}

}  // namespace

void save_to_restore(std::span<const TensorEntry> tensors) {
  for_each_chunk(tensors, [](const TensorList& list, ChunkRange range, std::int64_t) {
    copy_chunk(range, list.parameter[range.index], list.state1[range.index]);
  });
}

void restore(std::span<const TensorEntry> tensors) {
  for_each_chunk(tensors, [](const TensorList& list, ChunkRange range, std::int64_t) {
    copy_chunk(range, list.state1[range.index], list.parameter[range.index]);
  });
}

void restore_if_skipped(std::span<const TensorEntry> tensors, const StepControl* control) {
  if (control->skip) restore(tensors);
}

}  // namespace triaccel::kernels::cpu
