#include "triaccel/kernels/excitation/channel_gate.h"

#include "tests/kernels/conv/depthwise_cases.h"
#include "tests/kernels/excitation/channel_gate_cases.h"

namespace triaccel::kernels {
namespace {

TEST(ChannelGate, FollowsItsDefinitionInEveryTypeAndSize) {
  at::manual_seed(1);
  for (const FloatType type : kFloatTypes)
    for (const std::int64_t pixels : {1, 4, 49, 211})
      for (const std::int64_t channels : {1, 3, 8, 40}) {
        const ChannelMaps maps = {3, pixels, channels, type};
        const GateInputs in = random_gate_inputs(maps);
        const GateResults found = gate_results(
            maps, in, [&](const PixelSum& sum) { cpu::pixel_sum(maps, sum); },
            [&](const ChannelGate& gate) { cpu::channel_gate(maps, gate); });
        const GateResults wanted = gates_by_definition(maps, in, false);
        const GateResults magnitude = gates_by_definition(maps, in, true);
        const std::string what = described(maps);
        expect_close(found.mean, wanted.mean, magnitude.mean, "mean of " + what);
        expect_close(found.product_sum, wanted.product_sum, magnitude.product_sum,
                     "sum of " + what);
        expect_close(found.gated, wanted.gated, magnitude.gated, "gates on " + what);
        expect_close(found.shifted, wanted.shifted, magnitude.shifted, "gates, offset on " + what);
        expect_close(found.offset_only, wanted.offset_only, magnitude.offset_only,
                     "offset on " + what);
      }
}

}  // namespace
}  // namespace triaccel::kernels
