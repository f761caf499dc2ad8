#include <cuda_runtime.h>

#include "tests/kernels/common/cuda_fixture.h"
#include "tests/kernels/common/tensor_bunch.h"
#include "triaccel/kernels/precision/scaled_cast.h"
#include "triaccel/kernels/precision/weight_copy.h"
#include "triaccel/kernels/update/restore_if_skipped.h"
#include "triaccel/kernels/update/step_control.h"
#include "triaccel/kernels/update/weight_average.h"

namespace triaccel::kernels {
namespace {

constexpr std::int64_t kLong = 2'500'001;  // elements: more blocks than a chip holds at once
constexpr int kTurns = 40;
constexpr int kTurnsOfAFork = 8;

/// What the chain below reads and overwrites in turn.
struct ChainMemory {
  at::Tensor values = at::randn({kLong});
  at::Tensor others = at::zeros({kLong});
  at::Tensor saved = at::randn({kLong});
  at::Tensor rounded = at::zeros({kTurns / kTurnsOfAFork, kLong}, at::kBFloat16);
  at::Tensor control = on_device(StepControl{}, at::kCPU);
  at::Tensor sound = on_device(LayerMoments{}, at::kCPU);
  at::Tensor broken = on_device(LayerMoments{.nonfinite = 1}, at::kCPU);

  ChainMemory on(at::Device device) const {
    ChainMemory copy = *this;
    for (at::Tensor* tensor : {&copy.values, &copy.others, &copy.saved, &copy.rounded,
                               &copy.control, &copy.sound, &copy.broken})
      *tensor = tensor->to(device);
    return copy;
  }
};

CastArrays link(const at::Tensor& from, const at::Tensor& to) {
  return {.from = from.data_ptr(), .to = to.data_ptr(), .count = from.numel()};
}

std::vector<TensorEntry> pair_of(const at::Tensor& parameter, const at::Tensor& state1) {
  return {{.parameter = parameter.data_ptr<float>(),
           .state1 = state1.data_ptr<float>(),
           .count = parameter.numel()}};
}

std::vector<WeightCopyEntry> rounding(const at::Tensor& from, const at::Tensor& to) {
  WeightCopyEntry entry = {.from = from.data_ptr<float>(), .to = pointer<std::uint16_t>(to)};
  entry.extent[3] = static_cast<std::int32_t>(from.numel());
  entry.stride[3] = 1;
  return {entry};
}

struct HostChain {
  void cast(const at::Tensor& from, const at::Tensor& to) { cpu::scaled_cast(link(from, to), {}); }
  void swap(const at::Tensor& a, const at::Tensor& b) { cpu::swap_weights(pair_of(a, b)); }
  void decide(const at::Tensor& control, const at::Tensor& moments) {
    cpu::decide_step(pointer<StepControl>(control), pointer<LayerMoments>(moments), 1, {});
  }
  void restore(const at::Tensor& live, const at::Tensor& saved, const at::Tensor& control) {
    cpu::restore_if_skipped(pair_of(live, saved), pointer<StepControl>(control));
  }
  void clear(const at::Tensor& memory) { memory.zero_(); }
  void fork() {}
  void round_on_side_stream(const at::Tensor& from, const at::Tensor& to) {
    cpu::copy_weights(rounding(from, to));
  }
  void join() {}
};

/// Two streams of its own.
class DeviceChain {
 public:
  DeviceChain() {
    for (cudaStream_t* stream : {&main_, &side_})
      EXPECT_EQ(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking), cudaSuccess);
    for (cudaEvent_t* event : {&forked_, &joined_})
      EXPECT_EQ(cudaEventCreateWithFlags(event, cudaEventDisableTiming), cudaSuccess);
  }
  ~DeviceChain() {
    for (cudaEvent_t event : {forked_, joined_}) cudaEventDestroy(event);
    for (cudaStream_t stream : {main_, side_}) cudaStreamDestroy(stream);
  }
  DeviceChain(const DeviceChain&) = delete;
  DeviceChain& operator=(const DeviceChain&) = delete;

  void cast(const at::Tensor& from, const at::Tensor& to) {
    cuda::scaled_cast(link(from, to), {}, main_);
  }
  void swap(const at::Tensor& a, const at::Tensor& b) { cuda::swap_weights(pair_of(a, b), main_); }
  void decide(const at::Tensor& control, const at::Tensor& moments) {
    cuda::decide_step(pointer<StepControl>(control), pointer<LayerMoments>(moments), 1, {}, main_);
  }
  void restore(const at::Tensor& live, const at::Tensor& saved, const at::Tensor& control) {
    cuda::restore_if_skipped(pair_of(live, saved), pointer<StepControl>(control), main_);
  }
  void clear(const at::Tensor& memory) {
    EXPECT_EQ(cudaMemsetAsync(memory.data_ptr(), 0, memory.nbytes(), main_), cudaSuccess);
  }
  void fork() {
    EXPECT_EQ(cudaEventRecord(forked_, main_), cudaSuccess);
    EXPECT_EQ(cudaStreamWaitEvent(side_, forked_), cudaSuccess);
  }
  void round_on_side_stream(const at::Tensor& from, const at::Tensor& to) {
    cuda::copy_weights(rounding(from, to), side_);
  }
  void join() {
    EXPECT_EQ(cudaEventRecord(joined_, side_), cudaSuccess);
    EXPECT_EQ(cudaStreamWaitEvent(main_, joined_), cudaSuccess);
  }

  /// The graph of what `work` enqueues; the caller destroys it.
  template <typename Work>
  cudaGraph_t captured(Work work) {
    EXPECT_EQ(cudaStreamBeginCapture(main_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    work();
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(main_, &graph), cudaSuccess);
    return graph;
  }
  cudaStream_t main() const { return main_; }

 private:
  cudaStream_t main_ = nullptr, side_ = nullptr;
  cudaEvent_t forked_ = nullptr, joined_ = nullptr;
};

/// Turns the values by an offset, so that each kernel reads what another block of the kernel before
/// has written, and takes a part of them back where a step is decided to be skipped. Kernels of one
/// block lie between those of thousands; now and then come a memset, a fork and a join.
template <typename Chain>
void run_chain(Chain& chain, const ChainMemory& memory) {
  for (int turn = 0; turn < kTurns; ++turn) {
    const std::int64_t offset = turn % 2 == 0 ? 1 : 12289, rest = kLong - offset;
    chain.cast(memory.values.narrow(0, offset, rest), memory.others.narrow(0, 0, rest));
    chain.cast(memory.values.narrow(0, 0, offset), memory.others.narrow(0, rest, offset));
    chain.swap(memory.values, memory.others);
    chain.decide(memory.control, turn % 3 == 0 ? memory.broken : memory.sound);
    chain.restore(memory.values.narrow(0, 100'000, 50'000), memory.saved.narrow(0, 0, 50'000),
                  memory.control);
    if (turn % kTurnsOfAFork != 0) continue;
    chain.fork();
    chain.round_on_side_stream(memory.values, memory.rounded[turn / kTurnsOfAFork]);
    chain.clear(memory.others);
    chain.cast(memory.saved.narrow(0, 0, 3000), memory.others.narrow(0, 0, 3000));
    chain.join();
  }
}

void expect_same(const ChainMemory& device, const ChainMemory& host) {
  EXPECT_TRUE(same_bits(device.values, host.values));
  EXPECT_TRUE(same_bits(device.others, host.others));
  EXPECT_TRUE(same_bits(device.rounded, host.rounded));
  EXPECT_TRUE(same_bits(device.control, host.control));
}

class OverlappedLaunches : public CudaTest {};

TEST_F(OverlappedLaunches, KeepTheOrderOfAChainThatSharesMemory) {
  const ChainMemory host, device = host.on(device_);
  HostChain host_chain;
  DeviceChain device_chain;
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  const auto device_work = [&] { run_chain(device_chain, device); };

  run_chain(host_chain, host);
  device_work();
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  expect_same(device, host);

  const cudaGraph_t graph = device_chain.captured(device_work);
  cudaGraphExec_t steps = nullptr;
  ASSERT_EQ(cudaGraphInstantiate(&steps, graph, 0), cudaSuccess);
  for (int replay = 0; replay < 2; ++replay) {
    run_chain(host_chain, host);
    EXPECT_EQ(cudaGraphLaunch(steps, device_chain.main()), cudaSuccess);
  }
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  expect_same(device, host);
  EXPECT_EQ(cudaGraphExecDestroy(steps), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
}

TEST_F(OverlappedLaunches, AreProgrammaticEdgesOfACapturedGraph) {
  int generation = 0;
  ASSERT_EQ(cudaDeviceGetAttribute(&generation, cudaDevAttrComputeCapabilityMajor, device_.index()),
            cudaSuccess);
  if (generation < 9) GTEST_SKIP() << "chips before sm_90 do not overlap kernels";
  const ChainMemory memory = ChainMemory().on(device_);
  DeviceChain chain;
  const cudaGraph_t graph = chain.captured([&] {
    chain.cast(memory.saved, memory.others);
    chain.swap(memory.values, memory.others);
    chain.decide(memory.control, memory.sound);
    chain.restore(memory.values, memory.saved, memory.control);
  });
  std::size_t count = 0;
  ASSERT_EQ(cudaGraphGetEdges(graph, nullptr, nullptr, nullptr, &count), cudaSuccess);
  ASSERT_EQ(count, 3u);
  std::vector<cudaGraphNode_t> from(count), to(count);
  std::vector<cudaGraphEdgeData> edges(count);
  ASSERT_EQ(cudaGraphGetEdges(graph, from.data(), to.data(), edges.data(), &count), cudaSuccess);
  for (const cudaGraphEdgeData& edge : edges)
    EXPECT_EQ(edge.type, cudaGraphDependencyTypeProgrammatic);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
}

}  // namespace
}  // namespace triaccel::kernels
