#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace triaccel::kernels::cuda {

/// How the blocks of a cluster hand each other numbers through shared memory. A sent number and the
/// news of it travel together, so that nobody pays for a fence over all of a block's memory
/// traffic, as with a barrier of the whole cluster. Every call is for chips with clusters only; one
/// use a kernel. Order: open, then wait_for_peers, then send; the receiver calls wait_for_mail.
class ClusterMailbox {
 public:
#if __CUDA_ARCH__ >= 900
  /// By all threads. `bytes` will be sent to this block in all.
  __device__ void open(int bytes) {
    if (threadIdx.x == 0) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(address(&barrier_)) : "memory");
      asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
      asm volatile(
          "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address(&barrier_)),
          "r"(bytes)
          : "memory");
    }
    __syncwarp();
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
  }

  /// By all threads: every block of the cluster has opened its mailbox.
  __device__ void wait_for_peers() const {
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
  }

  /// By one thread: `value` into the copy of `place`, a place in this block's shared memory, that
  /// block `rank` of the cluster has.
  __device__ void send(int rank, const float2* place, float2 value) const {
    asm volatile(
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%0], {%1, %2}, [%3];" ::"r"(
            address_at(place, rank)),
        "f"(value.x), "f"(value.y), "r"(address_at(&barrier_, rank))
        : "memory");
  }

  /// By any thread: all bytes are here.
  __device__ void wait_for_mail() const {
    std::uint32_t arrived = 0;
    while (arrived == 0)
      asm volatile(
          "{\n"
          ".reg .pred arrived;\n"
          "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 arrived, [%1], 0;\n"
          "selp.u32 %0, 1, 0, arrived;\n"
          "}"
          : "=r"(arrived)
          : "r"(address(&barrier_))
          : "memory");
  }

 private:
  __device__ static std::uint32_t address(const void* place) {
    return static_cast<std::uint32_t>(__cvta_generic_to_shared(place));
  }

  __device__ static std::uint32_t address_at(const void* place, int rank) {
    std::uint32_t there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address(place)), "r"(rank));
    return there;
  }
#else
  __device__ void open(int) {}
  __device__ void wait_for_peers() const {}
  __device__ void send(int, const float2*, float2) const {}
  __device__ void wait_for_mail() const {}

 private:
#endif
  std::uint64_t barrier_;
};

}  // namespace triaccel::kernels::cuda
