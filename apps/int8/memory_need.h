#pragma once

#include <cstdint>
#include <string>

#include "apps/int8/options.h"
#include "triaccel/int8/network.h"
#include "triaccel/int8_run/sample_files.h"

namespace triaccel::int8_program {

/// Bytes of a run, known before its first step.
struct MemoryNeed {
  std::int64_t weights = 0;
  std::int64_t step = 0;     // working memory of a step
  std::int64_t samples = 0;  // labels of all samples, inputs of a batch
  std::int64_t order = 0;    // in which samples are used
  std::int64_t saving = 0;   // copies while a checkpoint is written or read, slopes
  std::int64_t program = 0;  // code, runtime library, stacks, buffers of files
  std::int32_t threads = 1;
  std::int32_t micro_batch = 0;
  std::int64_t total() const { return weights + step + samples + order + saving + program; }
};

/// "2.9 MiB: weights 105 KiB, …"
std::string need_text(const MemoryNeed& need);

/// What the run takes with as many of `threads` and as large a micro-batch as fit the budget; both
/// have no influence on the result. Throws OutOfMemory naming the least budget where none fits.
/// `training` false: for evaluation alone.
MemoryNeed fit_budget(const RunOptions& run, const SampleFiles& data, const int8::Network& network,
                      bool training);

}  // namespace triaccel::int8_program
