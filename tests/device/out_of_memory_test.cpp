#include "triaccel/device/out_of_memory.h"

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <stdexcept>
#include <string>

#include "triaccel/device/cpu_memory.h"
#include "triaccel/device/first_product.h"

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

/// As a product of libtorch on Arm does that is refused memory.
TEST(CatchingOutOfMemory, FindsWhatOneDnnDidWithoutAndSwitchesItOnAgain) {
  install_cpu_memory();
  at::Context& context = at::globalContext();
  if (!context.userEnabledMkldnn()) GTEST_SKIP() << "this libtorch has no oneDNN";
  const auto product = [&] {
    fail_cpu_allocation(0);
    EXPECT_THROW(at::empty({16}), c10::OutOfMemoryError);
    context.setUserEnabledMkldnn(false);
    return 7;
  };
  EXPECT_THROW(catching_out_of_memory(product), OutOfMemory);
  EXPECT_TRUE(context.userEnabledMkldnn());
  catching_out_of_memory([&] { context.setUserEnabledMkldnn(false); });
  EXPECT_FALSE(context.userEnabledMkldnn()) << "somebody's own wish";
  context.setUserEnabledMkldnn(true);
}

struct Heard : c10::WarningHandler {
  std::string all;
  void process(const c10::Warning& warning) override { all += warning.msg(); }
};

TEST(CatchingOutOfMemory, HidesWhatLibtorchSaysOfOneDnnAndNothingElse) {
  Heard heard;
  c10::WarningHandler* const before = c10::WarningUtils::get_warning_handler();
  c10::WarningUtils::set_warning_handler(&heard);
  catching_out_of_memory([] {
    TORCH_WARN("mkldnn_matmul failed, switching to BLAS gemm: frame #0");
    TORCH_WARN("something else");
  });
  TORCH_WARN(" afterwards");
  c10::WarningUtils::set_warning_handler(before);
  EXPECT_EQ(heard.all, "something else afterwards");
}

TEST(FirstProduct, IsTriedInAChildProcessWithATimeLimit) {
  EXPECT_TRUE(ends_in_time([] {}, 10));
  EXPECT_TRUE(ends_in_time([] { throw std::runtime_error("also an end"); }, 10));
  EXPECT_FALSE(ends_in_time([] { ::pause(); }, 0.1));
}

TEST(CatchingOutOfMemory, LetsOtherErrorsPass) {
  for (const char* what : {"CUDA error: CUBLAS_STATUS_EXECUTION_FAILED", "shapes do not match"})
    EXPECT_THROW(catching_out_of_memory([&] { TORCH_CHECK(false, what); }), c10::Error);
  EXPECT_EQ(catching_out_of_memory([] { return 7; }), 7);
}

}  // namespace
}  // namespace triaccel
