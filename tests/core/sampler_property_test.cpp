#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>

#include "triaccel/core/sampler.h"

namespace triaccel {
namespace {

RC_GTEST_PROP(SamplerProperty, EverySampleOnceAnEpochAtAnySequenceOfBatchSizes, ()) {
  const auto count = *rc::gen::inRange<std::int64_t>(1, 300);
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  Sampler sampler(shuffled_numbers(count, seed, 0), seed);
  std::map<std::int64_t, int> seen;
  while (sampler.epoch() < 3) {
    const auto batch = sampler.upcoming(*rc::gen::inRange<std::int64_t>(1, 400));
    RC_ASSERT(!batch.empty());
    for (std::int64_t id : batch) ++seen[id];
    sampler.take(static_cast<std::int64_t>(batch.size()));
  }
  RC_ASSERT(static_cast<std::int64_t>(seen.size()) == count);
  for (const auto& [id, times] : seen) RC_ASSERT(times == 3);
}

}  // namespace
}  // namespace triaccel
