#include "triaccel/kernels/excitation/channel_gate.h"

#include "tests/kernels/common/cuda_fixture.h"
#include "tests/kernels/conv/depthwise_cases.h"
#include "tests/kernels/excitation/channel_gate_cases.h"

namespace triaccel::kernels {
namespace {

class ChannelGateOnCuda : public CudaTest {
 protected:
  GateResults on_cuda(const ChannelMaps& maps, const GateInputs& in) {
    return gate_results(
        maps, in, [&](const PixelSum& sum) { cuda::pixel_sum(maps, sum, stream()); },
        [&](const ChannelGate& gate) { cuda::channel_gate(maps, gate, stream()); });
  }

  void expect_definition(const ChannelMaps& maps) {
    const GateInputs in = random_gate_inputs(maps);
    const GateInputs device = {in.map.to(device_), in.factor.to(device_), in.gate.to(device_),
                               in.offset.to(device_)};
    const GateResults found = on_cuda(maps, device), again = on_cuda(maps, device);
    const GateResults wanted = gates_by_definition(maps, in, false);
    const GateResults magnitude = gates_by_definition(maps, in, true);
    const auto expect_same = [&](auto member, const std::string& name) {
      EXPECT_TRUE(at::equal(found.*member, again.*member)) << name << " of " << described(maps);
      expect_close((found.*member).cpu(), wanted.*member, magnitude.*member,
                   name + " of " + described(maps));
    };
    expect_same(&GateResults::mean, "mean");
    expect_same(&GateResults::product_sum, "sum of products");
    expect_same(&GateResults::gated, "gates");
    expect_same(&GateResults::shifted, "gates and offset");
    expect_same(&GateResults::offset_only, "offset");
  }
};

TEST_F(ChannelGateOnCuda, FollowsItsDefinitionInEveryTypeAndSize) {
  for (const FloatType type : kFloatTypes)
    for (const std::int64_t pixels : {1, 4, 49, 211, 3001})
      for (const std::int64_t channels : {1, 3, 8, 40, 144, 1152})
        ASSERT_NO_FATAL_FAILURE(expect_definition({2, pixels, channels, type}));
}

TEST_F(ChannelGateOnCuda, FollowsItsDefinitionInABatch) {
  for (const std::int64_t channels : {32, 1152})
    ASSERT_NO_FATAL_FAILURE(expect_definition({96, 49, channels, FloatType::Bf16}));
}

TEST_F(ChannelGateOnCuda, TakesMapsThatLieAnywhere) {
  const ChannelMaps maps = {2, 30, 16, FloatType::Bf16};
  const at::Tensor whole = at::randn({2 * 30 * 16 + 1}, device_).to(at::kBFloat16);
  const at::Tensor map = whole.narrow(0, 1, 2 * 30 * 16);
  const at::Tensor mean = at::empty({2, 16}, map.options());
  cuda::pixel_sum(maps, {map.data_ptr(), nullptr, mean.data_ptr(), 30}, stream());
  const at::Tensor wide = map.view({2, 30, 16}).to(at::kDouble);
  expect_close(mean, wide.mean(1), wide.abs().mean(1), "mean at an odd address");
}

TEST_F(ChannelGateOnCuda, TakesNoImages) {
  cuda::pixel_sum({0, 4, 8, FloatType::F32}, {}, stream());
  cuda::channel_gate({0, 4, 8, FloatType::F32}, {}, stream());
}

}  // namespace
}  // namespace triaccel::kernels
