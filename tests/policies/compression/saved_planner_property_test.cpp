#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <vector>

#include "tests/policies/compression/saved_network.h"
#include "triaccel/policies/compression/saved_planner.h"
#include "triaccel/policies/memory/held_bytes.h"

namespace triaccel {
namespace {

double some(double low, double high) {
  const int part = *rc::gen::resize(rc::kNominalSize, rc::gen::inRange(0, 1001));
  return low * std::pow(high / low, part / 1000.0);
}

/// Kinds without least bits, and nothing to derive: only the budget decides.
std::vector<SavedStatistics> some_tensors() {
  std::vector<SavedStatistics> tensors;
  const auto count = *rc::gen::inRange<std::size_t>(1, 9);
  for (std::size_t i = 0; i < count; ++i) {
    const SavedClass kind =
        *rc::gen::element(SavedClass::NormInput, SavedClass::Positive, SavedClass::Factor,
                          SavedClass::Statistics, SavedClass::Sign);
    tensors.push_back(saved_tensor(kind, *rc::gen::inRange(1, 40),
                                   *rc::gen::element(1, 4, 7, 8, 14, 15, 32), some(0.05, 1)));
    SavedStatistics& tensor = tensors.back();
    tensor.nonzero_share = some(0.05, 1);
    tensor.sensitivity = some(0.01, 10);
    tensor.transforms[0].bands[0].squared_range *= some(0.1, 10);
    for (std::size_t t = 1; t < kTransformBlocks.size(); ++t) {
      tensor.transforms[t].measured = *rc::gen::inRange(0, 3) > 0;
      for (BandStatistics& band : tensor.transforms[t].bands) band.weight = some(0.1, 10);
    }
  }
  return tensors;
}

RC_GTEST_PROP(PlanSavedProperty, StaysWithinItsBudgetAndNeverGetsWorseWithMore, ()) {
  const std::vector<SavedStatistics> tensors = some_tensors();
  const auto samples = *rc::gen::inRange<std::int64_t>(1, 65);
  const double price = some(1, 16);
  const auto whole = fp32_bytes(tensors, samples);
  double last = 0;
  bool fitted = false;
  for (double share = some(0.02, 0.1); share < 1.1; share *= some(1.01, 1.6)) {
    const PlanRequest request{
        .samples = samples,
        .budget_bytes = static_cast<std::int64_t>(share * static_cast<double>(whole)),
        .drop_price = price};
    const SavedDecision decision = plan_saved(tensors, request, {.hysteresis = 0});
    RC_ASSERT(decision.bytes == held_bytes(tensors, decision.plans, samples));
    RC_ASSERT(decision.fits == (decision.bytes <= request.budget_bytes));
    RC_ASSERT(decision.fits || !fitted);
    if (fitted) RC_ASSERT(decision.gradient_error <= last * (1 + 1e-9));
    fitted = decision.fits;
    last = decision.gradient_error;
  }
}

RC_GTEST_PROP(PlanSavedProperty, AnswersTheSameQuestionAlikeAndNeverTakesAWorsePlanForIt, ()) {
  std::vector<SavedStatistics> tensors = some_tensors();
  for (std::size_t i = 1; i < tensors.size(); ++i) {
    tensors[i].derivation = static_cast<Derivation>(*rc::gen::inRange(0, 4));
    tensors[i].source = *rc::gen::inRange<std::int64_t>(-1, static_cast<std::int64_t>(i));
  }
  const PlanRequest request{.samples = 16, .budget_bytes = budget_for(tensors, some(1, 30), 16)};
  const SavedDecision first = plan_saved(tensors, request, {});
  RC_ASSERT(plan_saved(tensors, request, {}).plans == first.plans);
  PlanRequest again = request;
  again.previous = first.plans;
  if (first.fits)
    RC_ASSERT(plan_saved(tensors, again, {}).gradient_error <= first.gradient_error * (1 + 1e-9));
}

}  // namespace
}  // namespace triaccel
