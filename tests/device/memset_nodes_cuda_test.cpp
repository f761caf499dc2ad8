#include "triaccel/device/graph_nodes.h"

#include <ATen/ATen.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <vector>

#include "triaccel/device/captured_work.h"
#include "triaccel/device/cuda_memory.h"
#include "triaccel/device/side_stream.h"
#include "triaccel/kernels/update/weight_average.h"

namespace triaccel {
namespace {

/// Memory of a test: where nothing was set, every byte is 0x5c.
class MemsetNodes : public testing::Test {
 protected:
  void SetUp() override {
    if (!cuda_available()) GTEST_SKIP() << "this machine has no CUDA device";
    stream_.emplace(device_);
    side_.emplace();
  }

  at::Tensor untouched(std::int64_t bytes) const {
    return at::full({bytes}, 0x5c, at::TensorOptions(at::kByte).device(device_));
  }

  static std::vector<cudaGraphNode_t> nodes_of_type(cudaGraph_t graph, cudaGraphNodeType wanted) {
    std::size_t count = 0;
    EXPECT_EQ(cudaGraphGetNodes(graph, nullptr, &count), cudaSuccess);
    std::vector<cudaGraphNode_t> nodes(count);
    EXPECT_EQ(cudaGraphGetNodes(graph, nodes.data(), &count), cudaSuccess);
    std::erase_if(nodes, [&](cudaGraphNode_t node) {
      cudaGraphNodeType type = {};
      EXPECT_EQ(cudaGraphNodeGetType(node, &type), cudaSuccess);
      return type != wanted;
    });
    return nodes;
  }

  static void set(void* to, int value, std::size_t bytes) {
    const cudaStream_t stream = c10::cuda::getCurrentCUDAStream().stream();
    EXPECT_EQ(cudaMemsetAsync(to, value, bytes, stream), cudaSuccess);
  }

  const at::Device device_ = at::Device(at::kCUDA, 0);
  std::optional<WorkStream> stream_;
  std::optional<SideStream> side_;
};

TEST_F(MemsetNodes, BecomeKernelsThatWriteTheSameBytes) {
  struct Piece {
    std::int64_t begin, bytes;
    int value;
  };
  std::vector<Piece> pieces;
  std::int64_t end = 0;
  for (const int value : {0, 0xab})
    for (const std::int64_t bytes : {1, 3, 4096, (1 << 20) + 5, 40 << 20})
      for (const std::int64_t begin : {0, 1, 3, 16}) {
        pieces.push_back({end + begin, bytes, value});
        end += (begin + bytes + 63) / 64 * 64;
      }
  const at::Tensor memory = untouched(end), wanted = memory.cpu();
  for (const Piece& piece : pieces)
    wanted.narrow(0, piece.begin, piece.bytes).fill_(static_cast<std::int64_t>(piece.value));
  at::cuda::CUDAGraph graph(/*keep_graph=*/true);
  graph.capture_begin();
  for (const Piece& piece : pieces)
    set(memory.data_ptr<std::uint8_t>() + piece.begin, piece.value,
        static_cast<std::size_t>(piece.bytes));
  graph.capture_end();
  const std::size_t memsets = nodes_of_type(graph.raw_cuda_graph(), cudaGraphNodeTypeMemset).size();
  EXPECT_GE(memsets, pieces.size());
  replace_memset_nodes(graph.raw_cuda_graph());
  EXPECT_EQ(nodes_of_type(graph.raw_cuda_graph(), cudaGraphNodeTypeMemset).size(), 0u);
  EXPECT_EQ(nodes_of_type(graph.raw_cuda_graph(), cudaGraphNodeTypeKernel).size(), memsets);
  graph.instantiate();
  graph.replay();
  EXPECT_TRUE(at::equal(memory.cpu(), wanted));
}

TEST_F(MemsetNodes, OfWiderElementsAreReplacedAndOfSeveralRowsStay) {
  const at::Tensor memory = untouched(3 * 4096), wanted = memory.cpu();
  auto* const first = memory.data_ptr<std::uint8_t>();
  const std::vector<cudaMemsetParams> asked = {
      {.dst = first + 4,
       .pitch = 0,
       .value = 0x04030201,
       .elementSize = 4,
       .width = 501,
       .height = 1},
      {.dst = first + 4098,
       .pitch = 0,
       .value = 0x0605,
       .elementSize = 2,
       .width = 77,
       .height = 1},
      {.dst = first + 8192, .pitch = 512, .value = 7, .elementSize = 1, .width = 5, .height = 3}};
  for (const cudaMemsetParams& set : asked)
    for (std::size_t row = 0; row < set.height; ++row)
      for (std::size_t i = 0; i < set.width * set.elementSize; ++i)
        wanted.data_ptr<std::uint8_t>()[static_cast<std::uint8_t*>(set.dst) - first +
                                        static_cast<std::ptrdiff_t>(row * set.pitch + i)] =
            static_cast<std::uint8_t>(set.value >> (8 * (i % set.elementSize)));
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaGraphCreate(&graph, 0), cudaSuccess);
  for (const cudaMemsetParams& set : asked) {
    cudaGraphNode_t node = nullptr;
    ASSERT_EQ(cudaGraphAddMemsetNode(&node, graph, nullptr, 0, &set), cudaSuccess);
  }
  replace_memset_nodes(graph);
  EXPECT_EQ(nodes_of_type(graph, cudaGraphNodeTypeMemset).size(), 1u);
  cudaGraphExec_t ready = nullptr;
  ASSERT_EQ(cudaGraphInstantiate(&ready, graph, 0), cudaSuccess);
  ASSERT_EQ(cudaGraphLaunch(ready, c10::cuda::getCurrentCUDAStream().stream()), cudaSuccess);
  EXPECT_TRUE(at::equal(memory.cpu(), wanted));
  EXPECT_EQ(cudaGraphExecDestroy(ready), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
}

/// Each link reads what the one before wrote, on this stream or on the side stream, between
/// kernels that begin while the one before them ends.
TEST_F(MemsetNodes, KeepTheirPlaceAmongWorkOnSeveralStreams) {
  constexpr std::int64_t count = 3'000'000;
  const auto floats = at::TensorOptions(at::kFloat).device(device_);
  const at::Tensor a = at::ones({count}, floats), b = at::ones({count}, floats);
  const auto swap = [&] {
    const std::vector<kernels::TensorEntry> pair = {
        {.parameter = a.data_ptr<float>(), .state1 = b.data_ptr<float>(), .count = count}};
    kernels::cuda::swap_weights(pair, c10::cuda::getCurrentCUDAStream().stream());
  };
  const auto clear = [&](std::int64_t begin) {
    set(a.data_ptr<float>() + begin, 0, sizeof(float) * (count / 2));
  };
  const auto turns = [&] {
    for (int turn = 0; turn < 8; ++turn) {
      swap();
      clear(0);
      swap();
      a.add_(1);
      side_->run([&] { clear(count / 2); }, {});
      b.add_(1);
      side_->join();
      swap();
      swap();
    }
  };
  turns();  // loads the kernels, which a capture may not
  WorkPool pool;
  pool.share_with(*side_);
  CapturedWork(pool, turns).replay();
  at::Tensor x = at::ones({2}), y = at::ones({2});  // a and b, one element for each half
  for (int turn = 0; turn < 2 * 8; ++turn) {
    y[0] = 0;  // a, while swapped
    x.add_(1);
    x[1] = 0;
    y.add_(1);
  }
  const auto halves = [&](const at::Tensor& ends) {
    return ends.repeat_interleave(count / 2).to(device_);
  };
  EXPECT_TRUE(at::equal(a, halves(x)));
  EXPECT_TRUE(at::equal(b, halves(y)));
}

}  // namespace
}  // namespace triaccel
