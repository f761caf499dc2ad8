#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "triaccel/base/error.h"
#include "triaccel/device/captured_work.h"
#include "triaccel/device/cuda_memory.h"
#include "triaccel/device/graph_nodes.h"
#include "triaccel/device/side_stream.h"

namespace triaccel {

namespace allocator = c10::cuda::CUDACachingAllocator;

struct WorkPool::Id {
  Id() { allocator::createOrIncrefPool(device, pool); }
  ~Id() { allocator::releasePool(device, pool); }

  c10::DeviceIndex device = c10::cuda::current_device();
  std::vector<cudaStream_t> streams = {c10::cuda::getCurrentCUDAStream().stream()};
  c10::cuda::MempoolId_t pool = at::cuda::graph_pool_handle();
};

WorkPool::WorkPool() : id_(std::make_unique<Id>()) {}
WorkPool::~WorkPool() = default;

void WorkPool::renew() {
  const std::vector<cudaStream_t> streams = id_->streams;
  for (cudaStream_t stream : streams) release_workspaces(stream);  // they may lie in the pool
  id_.reset();
  release_cuda_cache();
  id_ = std::make_unique<Id>();
  id_->streams = streams;
}

void WorkPool::share_with(const SideStream& side) { id_->streams.push_back(side.handle()); }

WorkPool::Scope::Scope(WorkPool& pool) : pool_(pool) {
  allocator::beginAllocateToPool(pool.id_->device, pool.id_->pool,
                                 [streams = pool.id_->streams](cudaStream_t asked) {
                                   return std::ranges::find(streams, asked) != streams.end();
                                 });
}

WorkPool::Scope::~Scope() {
  allocator::endAllocateToPool(pool_.id_->device, pool_.id_->pool);
  allocator::releasePool(pool_.id_->device, pool_.id_->pool);
}

namespace {

/// A capture that has become invalid cannot be ended, and libtorch then leaves its allocator
/// believing that it goes on.
void end_failed_capture(at::cuda::CUDAGraph& graph, c10::DeviceIndex device,
                        c10::cuda::MempoolId_t pool) {
  try {
    graph.capture_end();
  } catch (const c10::Error&) {
    (void)cudaGetLastError();
    try {
      allocator::endAllocateToPool(device, pool);
    } catch (const c10::Error&) {  // it had got as far as that
    }
    allocator::releasePool(device, pool);
  }
}

}  // namespace

struct CapturedWork::Graph {
  /// Not instantiated when the capture ends, so that nodes can be replaced first. What was captured
  /// then stays, in memory of the host alone, as long as the graph.
  at::cuda::CUDAGraph graph{/*keep_graph=*/true};
  std::optional<LaunchNode> changing;  // given new arguments by the last replay

  void set(const KernelArguments& arguments) {
    if (!changing || changing->launch.func != arguments.kernel)
      changing = launch_of(graph.raw_cuda_graph(), arguments.kernel);
    cudaKernelNodeParams launch = changing->launch;
    launch.kernelParams = const_cast<void**>(arguments.values.data());
    C10_CUDA_CHECK(
        cudaGraphExecKernelNodeSetParams(graph.raw_cuda_graph_exec(), changing->node, &launch));
  }
};

CapturedWork::CapturedWork(WorkPool& pool, const std::function<void()>& work)
    : graph_(std::make_unique<Graph>()) {
  require(can_capture(), "CapturedWork", "work on the default stream cannot be captured");
  // Other threads of the program may go on allocating meanwhile.
  graph_->graph.capture_begin(pool.id_->pool, cudaStreamCaptureModeThreadLocal);
  try {
    work();
    graph_->graph.capture_end();  // fails, too, where work on another stream was not waited for
  } catch (...) {
    end_failed_capture(graph_->graph, pool.id_->device, pool.id_->pool);
    throw;
  }
  replace_memset_nodes(graph_->graph.raw_cuda_graph());
  graph_->graph.instantiate();
}

CapturedWork::~CapturedWork() = default;
CapturedWork::CapturedWork(CapturedWork&&) noexcept = default;
CapturedWork& CapturedWork::operator=(CapturedWork&&) noexcept = default;

void CapturedWork::replay(const KernelArguments& arguments) {
  if (arguments.kernel != nullptr) graph_->set(arguments);
  graph_->graph.replay();
}

bool can_capture() {
  return c10::cuda::device_count() > 0 &&
         c10::cuda::getCurrentCUDAStream() != c10::cuda::getDefaultCUDAStream();
}

}  // namespace triaccel
