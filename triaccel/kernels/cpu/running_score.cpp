#include "triaccel/kernels/running_score.h"

#include "triaccel/kernels/float_type_math.h"
#include "triaccel/kernels/running_score_math.h"

namespace triaccel::kernels::cpu {

void add_score(RunningScore* score, const ScoredBatch& batch) {
  std::int64_t correct = 0;
  std::int64_t predictions = 0;
  with_stored_type(batch.logits_type, [&]<typename Stored>(Stored) {
    const auto* logits = static_cast<const typename Stored::Word*>(batch.logits);
#pragma omp parallel for schedule(static) reduction(+ : correct, predictions)
    for (std::int64_t row = 0; row < batch.rows; ++row) {
      if (batch.labels[row] < 0) continue;
      Candidate best = no_candidate();
      for (std::int64_t k = 0; k < batch.classes; ++k)
        best = better(best, {Stored::value(logits[row * batch.classes + k]), k});
      correct += best.index == batch.labels[row] ? 1 : 0;
      ++predictions;
    }
  });
  score->correct += correct;
  score->predictions += predictions;
  add_loss(*score, *batch.loss, batch.samples);
}

}  // namespace triaccel::kernels::cpu
