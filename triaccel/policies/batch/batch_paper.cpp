#include "triaccel/policies/batch/batch_paper.h"

namespace triaccel {

std::int64_t paper_batch(std::int64_t batch, double used_bytes, double limit_bytes,
                         const BatchOptions& options) {
  if (used_bytes < options.rho_low * limit_bytes) return batch + options.delta_up;
  if (used_bytes > options.rho_high * limit_bytes) return batch - options.delta_down;
  return batch;
}

}  // namespace triaccel
