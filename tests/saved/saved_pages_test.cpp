#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "tests/saved/saved_pass.h"
#include "triaccel/device/cpu_memory.h"
#include "triaccel/saved/saved_store.h"

namespace triaccel {
namespace {

/// A network's passes under a store whose records lie in pages, and under one that lays each alone
/// because no pass came before.
struct PagedRun {
  explicit PagedRun(const ModelOptions& model)
      : run(model, 4),
        paged(store_for(forward, run.constants, plan, run.input.size(0))),
        alone(store_for(forward, run.constants, plan, run.input.size(0))) {
    run.gradients(kept(*paged, forward));
    kept(*alone, [] { return at::Tensor(); });
  }

  SlimRun run;
  Forward forward = [this] { return run.forward(); };
  SavedPlan plan{.codec = SavedCodec::Groups, .eighths = 20};
  std::unique_ptr<SavedStore> paged, alone;
};

TEST(SavedPages, AreFewerThanRecordsAndLeaveEveryBitOfEveryGradient) {
  install_cpu_memory();
  for (const ModelOptions& model :
       {ModelOptions{.name = "resnet18", .stem = "cifar", .width = 8, .image_size = 32},
        ModelOptions{.name = "efficientnet-b0", .width = 8, .image_size = 32},
        ModelOptions{.name = "vit-small", .width = 64, .image_size = 32}}) {
    PagedRun each(model);
    const at::Tensor logits = kept(*each.paged, each.forward);
    const std::vector<at::Tensor> gradients = each.run.gradients(logits);
    const std::vector<at::Tensor> wanted = each.run.gradients(kept(*each.alone, each.forward));
    for (std::size_t i = 0; i < wanted.size(); ++i)
      EXPECT_TRUE(torch::equal(gradients[i], wanted[i])) << model.name << " " << i;
    const SavedCounts counts = each.paged->counts(), apart = each.alone->counts();
    EXPECT_EQ(counts.all_held_bytes(), apart.all_held_bytes()) << model.name;
    EXPECT_EQ(counts.allocated_bytes, apart.allocated_bytes) << model.name;
    EXPECT_LT(counts.allocations * 3, apart.allocations * 2) << model.name;
  }
}

/// Backward takes most memory where most of the records that were made last are gone.
TEST(SavedPages, RaiseTheGreatestMemoryByLittle) {
  install_cpu_memory();
  const at::Tensor x = torch::randn({2, 32, 256}).requires_grad_();
  const at::Tensor wider = torch::randn({256, 2048}), back = torch::randn({2048, 256});
  const Forward forward = [&] {
    at::Tensor y = x;
    for (int i = 0; i < 36; ++i) y = torch::silu(y);
    y = torch::silu(y.matmul(wider)).matmul(back);
    for (int i = 0; i < 12; ++i) y = torch::silu(y);
    return y;
  };
  const auto peak = [&](SavedStore& store) {
    const std::int64_t before = read_cpu_memory().used;
    reset_cpu_memory_peak();
    torch::autograd::grad({kept(store, forward).sum()}, {x});
    return static_cast<double>(read_cpu_memory().peak - before);
  };
  const SavedPlan plan{.codec = SavedCodec::Groups, .eighths = 64};
  const auto alone = store_for(forward, {wider, back}, plan);
  const auto paged = store_for(forward, {wider, back}, plan);
  peak(*paged);
  EXPECT_LE(peak(*paged), 1.02 * peak(*alone));
  EXPECT_LT(paged->counts().allocations * 3, alone->counts().allocations * 2);
}

TEST(SavedPages, LeaveNothingBehindWhereverAForwardPassRunsOutOfMemory) {
  install_cpu_memory();
  PagedRun each({.name = "resnet18", .stem = "cifar", .width = 4, .image_size = 8});
  each.paged->end_pass();
  const std::int64_t used = read_cpu_memory().used;
  std::int64_t failing = 0;
  for (bool failed = true; failed; ++failing) {
    failed = false;
    fail_cpu_allocation(failing);
    try {
      kept(*each.paged, each.forward);
    } catch (const c10::OutOfMemoryError&) {
      failed = true;
    }
    fail_cpu_allocation(-1);
    each.paged->abandon_pass();
    EXPECT_EQ(read_cpu_memory().used, used) << failing;
  }
  EXPECT_GT(failing, 100);
  each.alone->passes().copy_(each.paged->passes());
  const std::vector<at::Tensor> gradients = each.run.gradients(kept(*each.paged, each.forward));
  const std::vector<at::Tensor> wanted = each.run.gradients(kept(*each.alone, each.forward));
  EXPECT_LT(each.paged->counts().allocations, each.alone->counts().allocations);
  for (std::size_t i = 0; i < wanted.size(); ++i)
    EXPECT_TRUE(torch::equal(gradients[i], wanted[i])) << i;
}

}  // namespace
}  // namespace triaccel
