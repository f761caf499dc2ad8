#pragma once

#include <cstdint>

#include "triaccel/core/curvature_report.h"

namespace triaccel {

struct CurvatureOptions {
  CurvatureMode mode = CurvatureMode::FisherGram;
  std::int64_t top = 5;      // eigenvalues a layer
  std::int64_t batch = 32;   // samples to look at
  bool whole_layer = false;  // the block: the weight alone, or all the layer's parameters. Of these
                             // the Gram matrix takes in biases that the layer's operator adds, not
                             // norms nor the bias that nn::Linear adds itself beyond [samples, in].
  std::int64_t workspace_bytes = 8 << 20;  // fisher_gram: most for slices of sample gradients
  std::int64_t most_iterations = 20;       // hessian: products with each of the `top` vectors
  double tolerance = 1e-2;  // hessian: stop when no eigenvalue moves by this share of the largest
  std::uint64_t seed = 0;   // hessian: of the start vectors
  bool operator==(const CurvatureOptions&) const = default;
};

}  // namespace triaccel
