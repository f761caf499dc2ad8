// What is asked of the CUDA kernels without launching one, answered for a build without nvcc. The
// launchers need no such answer: ops/tensors/dispatch.h does not refer to them in that build.

#include <string_view>

#include "triaccel/base/error.h"
#include "triaccel/kernels/conv/stem_convolution.h"
#include "triaccel/kernels/excitation/squeeze_excite.h"
#include "triaccel/kernels/loss_data/step_inputs.h"
#include "triaccel/kernels/norm/batch_norm.h"

namespace triaccel::kernels::cuda {
namespace {

[[noreturn]] void no_cuda(std::string_view who) {
  throw UsageError(
      text("[", who, "] this build has no CUDA back end; configure with -DTRIACCEL_CUDA=ON"));
}

}  // namespace

bool has_stem_convolution() { return false; }

bool excite_fits(const ExciteShape&) { return false; }

const void* step_inputs_kernel() { no_cuda("step_inputs_kernel"); }

std::int64_t batch_norm_scratch_bytes(const NormMap&) { no_cuda("batch_norm"); }

}  // namespace triaccel::kernels::cuda
