#include "triaccel/optim/optimizer.h"

#include <ATen/ATen.h>

#include "triaccel/base/error.h"
#include "triaccel/optim/adamw.h"
#include "triaccel/optim/sgd.h"

namespace triaccel {

std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options,
                                          std::vector<ParameterRef> parameters) {
  switch (options.kind) {
    case OptimizerKind::Sgd:
      return std::make_unique<Sgd>(options, std::move(parameters));
    case OptimizerKind::AdamW:
      return std::make_unique<AdamW>(options, std::move(parameters));
  }
  ensure(false, "every OptimizerKind has an optimizer");
  return nullptr;
}

}  // namespace triaccel
