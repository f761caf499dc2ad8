#include "triaccel/saved/recomputed_segments.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <vector>

#include "triaccel/base/error.h"
#include "triaccel/device/cpu_memory.h"
#include "triaccel/device/memory_gauge.h"

namespace triaccel {
namespace {

const c10::Device kCpu(c10::kCPU);

using Block = std::function<at::Tensor(const at::Tensor&)>;

/// A chain of blocks over one weight each, whose segments count their calls.
struct Chain {
  explicit Chain(Block change) : block(std::move(change)) {
    torch::manual_seed(3);
    for (int i = 0; i < 4; ++i) weights.push_back(torch::randn({64, 64}).requires_grad_());
  }

  at::Tensor forward(at::Tensor x) {
    for (const at::Tensor& weight : weights)
      x = run_segment(x, [this, weight](const at::Tensor& in) {
        ++calls;
        return block(at::tanh(at::matmul(in, weight))).sigmoid() + in;
      });
    return x;
  }

  /// The gradients of a pass, with segments or without.
  std::vector<at::Tensor> gradients(RecomputedSegments* segments, bool captured = false) {
    at::Tensor result;
    {
      std::optional<SegmentScope> scope;
      if (segments != nullptr) {
        segments->begin_pass(captured);
        scope.emplace(*segments);
      }
      result = forward(inputs);
    }
    return torch::autograd::grad({result.square().sum()}, weights);
  }

  Block block;
  std::vector<at::Tensor> weights;
  at::Tensor inputs = torch::randn({512, 64});
  int calls = 0;
};

const Block kGelu = [](const at::Tensor& x) { return at::gelu(x); };
const Block kDropout = [](const at::Tensor& x) { return at::dropout(x, 0.5, /*train=*/true); };

RecomputedSegments plain_segments(double share = 1) {
  return {kCpu, {.finish = [] {}, .again = [](const auto& forward) { forward(); }}, share};
}

void expect_same(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(at::equal(a[i], b[i])) << i;
}

TEST(RecomputedSegments, GiveTheSameGradients) {
  Chain chain(kGelu);
  const std::vector<at::Tensor> saved = chain.gradients(nullptr);
  EXPECT_EQ(chain.calls, 4);
  RecomputedSegments segments = plain_segments();
  expect_same(chain.gradients(&segments), saved);
  EXPECT_EQ(segments.recomputed(), 4U);
  EXPECT_EQ(chain.calls, 4 + 8);
}

TEST(RecomputedSegments, KeepOnlyTheInputsOfSegments) {
  install_cpu_memory();
  Chain chain(kGelu);
  RecomputedSegments segments = plain_segments();
  segments.begin_pass(/*captured=*/false);
  MemoryGauge gauge(kCpu);
  const std::int64_t before = gauge.used();
  const SegmentScope scope(segments);
  const at::Tensor result = chain.forward(chain.inputs);
  // The outputs of all four; the first input was there before.
  EXPECT_LE(gauge.used() - before, 4 * static_cast<std::int64_t>(result.nbytes()) + 4096);
}

TEST(RecomputedSegments, FreeWhatBackwardHasRead) {
  install_cpu_memory();
  MemoryGauge gauge(kCpu);
  const auto peak = [&](RecomputedSegments* segments) {
    Chain chain(kGelu);
    gauge.reset_peak();
    const std::int64_t before = gauge.used();
    chain.gradients(segments);
    return gauge.read().peak - before;
  };
  RecomputedSegments segments = plain_segments();
  EXPECT_LT(peak(&segments), peak(nullptr) * 3 / 4);
}

TEST(RecomputedSegments, AreAShareOfTheBytesFromTheFirstOn) {
  Chain chain(kGelu);
  chain.inputs.requires_grad_();  // so that all segments save the same
  const std::vector<at::Tensor> saved = chain.gradients(nullptr);
  for (const auto& [share, recomputed] : {std::pair{0.25, 1U}, {0.5, 2U}, {0.6, 3U}, {1.0, 4U}}) {
    RecomputedSegments segments = plain_segments(share);
    expect_same(chain.gradients(&segments), saved);
    EXPECT_EQ(segments.recomputed(), 4U) << "as long as their bytes are not known";
    for (const bool captured : {false, true}) {
      expect_same(chain.gradients(&segments, captured), saved);
      EXPECT_EQ(segments.recomputed(), recomputed) << share;
    }
  }
}

TEST(RecomputedSegments, DrawTheSameRandomNumbersAgain) {
  Chain chain(kDropout);
  torch::manual_seed(5);
  const std::vector<at::Tensor> saved = chain.gradients(nullptr);
  const at::Tensor next = at::rand({4});
  RecomputedSegments segments = plain_segments();
  torch::manual_seed(5);
  expect_same(chain.gradients(&segments), saved);
  EXPECT_EQ(segments.recomputed(), 4U);
  EXPECT_TRUE(at::equal(at::rand({4}), next)) << "as if none had been drawn twice";
}

TEST(RecomputedSegments, AreSavedInCapturedPassesWhereTheyDrawRandomNumbers) {
  Chain chain(kDropout);
  torch::manual_seed(5);
  const std::vector<at::Tensor> saved = chain.gradients(nullptr);
  RecomputedSegments segments = plain_segments();
  // Such a pass cannot see whether they do: as in the pass before, and first of all they do.
  for (const bool captured : {true, false, true}) {
    torch::manual_seed(5);
    expect_same(chain.gradients(&segments, captured), saved);
    EXPECT_EQ(segments.recomputed(), captured ? 0U : 4U);
  }
}

TEST(RecomputedSegments, AreRecomputedInCapturedPassesAsInThePassBefore) {
  Chain chain(kGelu);
  RecomputedSegments segments = plain_segments();
  chain.gradients(&segments, /*captured=*/true);
  EXPECT_EQ(segments.recomputed(), 0U);
  chain.gradients(&segments, /*captured=*/false);
  chain.gradients(&segments, /*captured=*/true);
  EXPECT_EQ(segments.recomputed(), 4U);
}

TEST(RecomputedSegments, IncludeTheSegmentsWithinThem) {
  int inner = 0;
  Chain chain([&](const at::Tensor& x) {
    return run_segment(x, [&](const at::Tensor& in) {
      ++inner;
      return in.exp();
    });
  });
  const std::vector<at::Tensor> saved = chain.gradients(nullptr);
  inner = 0;
  RecomputedSegments segments = plain_segments();
  expect_same(chain.gradients(&segments), saved);
  EXPECT_EQ(segments.recomputed(), 4U);
  EXPECT_EQ(inner, 8);
}

TEST(RecomputedSegments, AreComputedOnceWhereNothingIsDifferentiated) {
  Chain chain(kGelu);
  RecomputedSegments segments = plain_segments();
  segments.begin_pass(/*captured=*/false);
  const at::NoGradGuard no_grad;
  const SegmentScope scope(segments);
  chain.forward(chain.inputs);
  EXPECT_EQ(chain.calls, 4);
  EXPECT_EQ(segments.recomputed(), 0U);
}

TEST(RecomputedSegments, RefuseAForwardFunctionThatChanges) {
  for (const bool more : {true, false}) {
    bool again = false;
    Chain chain([&](const at::Tensor& x) {
      if (!again) return x.exp();
      return more ? x.exp().exp() : x.to(at::kDouble).exp().to(at::kFloat);
    });
    RecomputedSegments segments(
        kCpu, {.finish = [] {}, .again = [&](const auto& forward) { again = true, forward(); }});
    EXPECT_THROW(chain.gradients(&segments), UsageError) << more;
  }
}

TEST(RecomputedSegments, PassOnWhatTheSecondForwardThrows) {
  bool again = false;
  Chain chain([&](const at::Tensor& x) {
    if (again) throw OutOfMemory("no room");
    return x.exp();
  });
  RecomputedSegments segments(
      kCpu, {.finish = [] {}, .again = [&](const auto& forward) { again = true, forward(); }});
  EXPECT_THROW(chain.gradients(&segments), OutOfMemory);
  again = false;
  chain.block = kGelu;
  const std::vector<at::Tensor> saved = chain.gradients(nullptr);
  expect_same(chain.gradients(&segments), saved);
}

}  // namespace
}  // namespace triaccel
