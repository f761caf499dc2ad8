#include "triaccel/trainer/evaluate/evaluate_weights.h"

#include <numeric>
#include <vector>

#include "triaccel/trainer/evaluate/evaluator.h"
#include "triaccel/trainer/int8/int8_run.h"
#include "triaccel/trainer/loop/run_parts.h"

namespace triaccel {

EvaluationReport evaluate_weights(const RunConfig& config) {
  const RunConfig complete = resolved(config);
  if (trains_in_integers(complete)) return evaluate_int8_weights(complete);
  RunParts parts(complete);
  std::vector<std::int64_t> ids(static_cast<std::size_t>(parts.data.test->size()));
  std::iota(ids.begin(), ids.end(), std::int64_t{0});
  return Evaluator(parts.network, parts.on.device)
      .evaluate(*parts.data.test, ids,
                {.forward = parts.runner->forward_rules(), .batch = complete.train.batch});
}

}  // namespace triaccel
