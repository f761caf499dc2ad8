#include "triaccel/policies/error_bound.h"

#include "triaccel/policies/codec_rules.h"

namespace triaccel {

double permitted_error(const SavedStatistics& tensor, std::int64_t samples, double eps) {
  const double spread = static_cast<double>(tensor.elements(samples)) * tensor.kernel_share *
                        tensor.output_gradient_square;
  if (tensor.weight_gradient_square > 0 && spread > 0 && tensor.variance > 0)
    return eps * tensor.weight_gradient_square / (2 * spread) / tensor.variance;
  return eps / (2 * sensitivity_of(tensor));
}

}  // namespace triaccel
