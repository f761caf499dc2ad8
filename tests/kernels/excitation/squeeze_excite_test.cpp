#include "triaccel/kernels/excitation/squeeze_excite.h"

#include "tests/kernels/excitation/squeeze_excite_cases.h"

namespace triaccel::kernels {
namespace {

TEST(SqueezeExcite, FollowsItsDefinitionInEveryTypeAndSize) {
  at::manual_seed(1);
  for (const FloatType type : kFloatTypes)
    for (const std::int64_t samples : {0, 1, 7})
      for (const std::int64_t channels : {1, 13, 40})
        for (const std::int64_t hidden : {1, 3, 8}) {
          const ExciteShape shape = {samples, channels, hidden, type};
          const ExciteInputs in = random_excite_inputs(shape);
          const ExciteResults found = excite_results(
              shape, in, FloatType::Bf16,
              [&](const auto& layers, const auto& params) {
                cpu::excite_forward(shape, layers, params);
              },
              [&](const auto& layers, const auto& params) {
                cpu::excite_backward(shape, layers, params);
              },
              [&](const auto& params) { cpu::excite_parameters(shape, params); });
          ASSERT_NO_FATAL_FAILURE(expect_excite_definition(shape, in, found));
        }
}

}  // namespace
}  // namespace triaccel::kernels
