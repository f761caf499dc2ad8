#include "triaccel/device/out_of_memory.h"

#include <gtest/gtest.h>

#include <string>

namespace triaccel {
namespace {

TEST(CatchingOutOfMemory, KnowsWhatLibrariesSayOfTheirOwnMemory) {
  for (const char* what : {"CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(h)`",
                           "cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
                           "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED",
                           "CUDA error: out of memory\nSearch for `cudaErrorMemoryAllocation'"}) {
    try {
      catching_out_of_memory([&] { TORCH_CHECK(false, what); });
      FAIL() << what;
    } catch (const OutOfMemory& error) {
      EXPECT_NE(std::string(error.what()).find(what), std::string::npos) << error.what();
    }
  }
  EXPECT_THROW(catching_out_of_memory([] { throw std::bad_alloc(); }), OutOfMemory);
}

TEST(CatchingOutOfMemory, LetsOtherErrorsPass) {
  for (const char* what : {"CUDA error: CUBLAS_STATUS_EXECUTION_FAILED", "shapes do not match"})
    EXPECT_THROW(catching_out_of_memory([&] { TORCH_CHECK(false, what); }), c10::Error);
  EXPECT_EQ(catching_out_of_memory([] { return 7; }), 7);
}

}  // namespace
}  // namespace triaccel
