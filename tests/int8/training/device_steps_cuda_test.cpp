#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "triaccel/base/random.h"
#include "triaccel/int8/cuda/device_steps.h"

namespace triaccel::int8::cuda {
namespace {

/// A step captured as a graph, on a stream and in memory of its own.
class CapturedSteps {
 public:
  CapturedSteps(const Network& network, std::int32_t batch, const StepOptions& options)
      : steps_(network, batch, options) {
    EXPECT_EQ(cudaStreamCreate(&stream_), cudaSuccess);
    EXPECT_EQ(cudaMalloc(&memory_, static_cast<std::size_t>(steps_.bytes())), cudaSuccess);
    steps_.place(memory_);
    EXPECT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal), cudaSuccess);
    steps_.enqueue(stream_);
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
    EXPECT_EQ(cudaGraphInstantiate(&graph_, graph, 0), cudaSuccess);
    EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  }
  ~CapturedSteps() {
    cudaGraphExecDestroy(graph_);
    cudaFree(memory_);
    cudaStreamDestroy(stream_);
  }
  CapturedSteps(const CapturedSteps&) = delete;
  CapturedSteps& operator=(const CapturedSteps&) = delete;

  void run(const std::vector<std::int8_t>& inputs, const std::vector<std::int32_t>& labels) {
    cudaMemcpyAsync(steps_.inputs(), inputs.data(), inputs.size(), cudaMemcpyHostToDevice, stream_);
    cudaMemcpyAsync(steps_.labels(), labels.data(), labels.size() * sizeof(labels[0]),
                    cudaMemcpyHostToDevice, stream_);
    EXPECT_EQ(cudaGraphLaunch(graph_, stream_), cudaSuccess);
  }
  DeviceSteps& steps() { return steps_; }
  cudaStream_t stream() const { return stream_; }

 private:
  DeviceSteps steps_;
  cudaStream_t stream_ = nullptr;
  void* memory_ = nullptr;
  cudaGraphExec_t graph_ = nullptr;
};

class DeviceStepsTest : public testing::Test {
 protected:
  void SetUp() override {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0)
      GTEST_SKIP() << "this machine has no CUDA device";
  }

  /// Mantissas in [-127, 127], or half of them zero and none negative, as images are.
  static std::vector<std::int8_t> values(std::size_t count, std::uint64_t step, bool image) {
    std::vector<std::int8_t> out(count);
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint32_t word = random_words(71, i / 4, step).words[i % 4];
      const auto size = static_cast<std::int32_t>(bounded(word, 128));
      out[i] = static_cast<std::int8_t>(word % 2 == 0 ? size : image ? 0 : -size);
    }
    return out;
  }

  /// The same steps on the CPU and on the device.
  static void expect_equal_runs(const Network& network, std::int32_t batch, std::int32_t steps,
                                StepOptions options) {
    const bool image = network.layers.front().kind == LayerKind::Convolution;
    State on_cpu = initial_state(network, 5);
    State on_device = on_cpu;
    CapturedSteps device(network, batch, options);
    device.steps().upload(on_device, device.stream());
    Arena arena;
    std::vector<std::int32_t> labels(static_cast<std::size_t>(batch));
    for (std::int32_t step = 0; step < steps; ++step) {
      const auto number = static_cast<std::uint64_t>(step);
      if (step == steps / 2) {
        ++options.rate_exponent;
        device.steps().set_rates(options.rate_exponent, options.gradient_bits, device.stream());
      }
      const auto inputs =
          values(static_cast<std::size_t>(batch) * static_cast<std::size_t>(network.inputs()),
                 number, image);
      for (std::size_t b = 0; b < labels.size(); ++b)
        labels[b] = static_cast<std::int32_t>(bounded(
            random_words(72, b, number).words[0], static_cast<std::uint32_t>(network.classes())));
      const StepReport expected =
          train_step(on_cpu, {.inputs = inputs.data(), .labels = labels.data(), .size = batch},
                     options, arena);
      device.run(inputs, labels);
      if (step % 50 != 0 && step != steps - 1) continue;
      const StepReport report = device.steps().report(device.stream());
      ASSERT_EQ(report.loss[0], expected.loss[0]) << "step " << step;
      ASSERT_EQ(report.loss[1], expected.loss[1]) << "step " << step;
      ASSERT_EQ(report.slope, expected.slope) << "step " << step;
      ASSERT_EQ(report.correct, expected.correct) << "step " << step;
      device.steps().download(on_device, device.stream());
      ASSERT_EQ(on_device, on_cpu) << "step " << step;
    }
    EXPECT_EQ(state_hash(on_device), state_hash(on_cpu));
  }
};

TEST_F(DeviceStepsTest, TrainLeNetBitForBitAsTheCpuOverAThousandSteps) {
  expect_equal_runs(lenet5({}), 8, 1000, {.seed = 11, .bp_layers = 2, .slope_exponent = 11});
}

TEST_F(DeviceStepsTest, TrainWithoutBackpropagation) {
  expect_equal_runs(lenet5({.image_size = 12, .classes = 5}), 33, 200, {.seed = 12});
}

TEST_F(DeviceStepsTest, TrainWithActivationsOfACleanPassAndShiftsOfTheirOwn) {
  expect_equal_runs(lenet5({}), 5, 60,
                    {.seed = 13,
                     .bp_layers = 3,
                     .rounding = UpdateRounding::PseudoStochastic,
                     .backprop_pass = BackpropPass::Clean,
                     .shared_shifts = false});
}

TEST_F(DeviceStepsTest, TrainTheLastLayerOverAFrozenHead) {
  expect_equal_runs(lenet5({}), 70, 60, {.seed = 14, .bp_layers = 1, .head = Head::Frozen});
}

TEST_F(DeviceStepsTest, WidenTheGridOfSaturatedLayers) {
  expect_equal_runs(lenet5({.image_size = 12}), 16, 200,
                    {.seed = 15,
                     .bp_layers = 2,
                     .noise = {.reach = 63, .zero_share = 20000},
                     .rate_exponent = 0,
                     .gradient_bits = 7,
                     .saturated_share = 2000});
}

TEST_F(DeviceStepsTest, TrainPointNet) {
  expect_equal_runs(pointnet({.points = 300, .classes = 7, .width = 16}), 6, 100,
                    {.seed = 16, .bp_layers = 2});
  expect_equal_runs(pointnet({}), 2, 4, {.seed = 17, .bp_layers = 3});
}

TEST_F(DeviceStepsTest, RefuseWhatOnlyTheCpuCanDo) {
  EXPECT_THROW(DeviceSteps(lenet5({}), 8, {.bp_layers = 4}), UsageError);
  EXPECT_THROW(DeviceSteps(lenet5({}), 8, paper_conventions({})), UsageError);
}

}  // namespace
}  // namespace triaccel::int8::cuda
