#include "triaccel/telemetry/records/plan_record.h"

#include <gtest/gtest.h>

#include "tests/core/byte_codec.h"
#include "tests/telemetry/sample_run.h"
#include "triaccel/base/error.h"
#include "triaccel/telemetry/records/metrics_files.h"

namespace triaccel {
namespace {

namespace fs = std::filesystem;

StepPlan plan_with_batch(std::int64_t batch) {
  StepPlan plan = controlled_plan();
  plan.batch_size = batch;
  return plan;
}

std::vector<ScheduledPlan> plans_in(const std::string& text) {
  ScratchDirectory scratch;
  const fs::path path = scratch.path() / kPlansJsonl;
  std::ofstream(path, std::ios::binary) << text;
  return read_plans(path);
}

TEST(ScheduledPlan, ReadsBackEqual) {
  const ScheduledPlan first{0, sample_plan()};
  const ScheduledPlan second{25, controlled_plan()};
  EXPECT_EQ(plans_in(to_jsonl(first) + '\n' + to_jsonl(second) + '\n'),
            (std::vector{first, second}));
}

StepPlan compressed_plan() {
  StepPlan plan = controlled_plan();
  plan.layers[0].saved = ActivationFormat::Compressed;
  plan.layers[1].saved = ActivationFormat::Lossless;
  plan.saved = {{},
                {.codec = SavedCodec::Mask},
                {.codec = SavedCodec::Groups, .eighths = 20},
                {.codec = SavedCodec::NonZeros, .eighths = 9},
                {.codec = SavedCodec::Frequency, .block = 7, .band_eighths = {64, 40, 16, 8, 0}}};
  return plan;
}

TEST(ScheduledPlan, ReadsBackWhatBecomesOfSavedTensors) {
  const ScheduledPlan record{25, compressed_plan()};
  const std::string line = to_jsonl(record);
  EXPECT_EQ(plans_in(line + '\n'), std::vector{record});
  EXPECT_NE(line.find("\"formats\":\"cl\",\"saved\":[\"raw\",\"mask\",\"groups 2.5\","
                      "\"nonzeros 1.125\",\"frequency7 8 5 2 1 0\"]"),
            std::string::npos)
      << line;
}

TEST(SavedPlanText, ReadsBackEveryCodec) {
  for (int i = 0; i < kSavedCodecs; ++i) {
    SavedPlan plan{.codec = static_cast<SavedCodec>(i)};
    if (plan.codec == SavedCodec::Registered) plan.registered = byte_codec();
    if (plan.codec == SavedCodec::Frequency) plan.block = 4;
    EXPECT_EQ(saved_plan_from(saved_plan_text(plan)), plan) << saved_plan_text(plan);
  }
}

TEST(ScheduledPlan, ReadsBackOffloadedLayers) {
  StepPlan plan = compressed_plan();
  plan.layers[0].saved = ActivationFormat::Offloaded;
  plan.layers[1].saved = ActivationFormat::Raw;
  plan.saved = {{.codec = SavedCodec::Host}, {}};
  const ScheduledPlan record{25, plan};
  const std::string line = to_jsonl(record);
  EXPECT_EQ(plans_in(line + '\n'), std::vector{record});
  EXPECT_NE(line.find("\"formats\":\"or\",\"saved\":[\"host\",\"raw\"]"), std::string::npos)
      << line;
}

TEST(SavedPlanText, NamesARegisteredCodec) {
  const SavedPlan plan{.codec = SavedCodec::Registered, .registered = byte_codec()};
  EXPECT_EQ(saved_plan_text(plan), "one-byte");
  EXPECT_EQ(saved_plan_from("one-byte"), plan);
  EXPECT_EQ(saved_plan_from("registered"), std::nullopt) << "does not say which";
}

TEST(SavedPlanText, IgnoresThePredictedBlocksOfEarlierVersions) {
  const auto plan = saved_plan_from("frequency8 8 5 2 1 1 predicted 30");
  ASSERT_TRUE(plan);
  EXPECT_EQ(saved_plan_text(*plan), "frequency8 8 5 2 1 1");
}

TEST(SavedPlanText, RefusesWhatIsNoPlan) {
  for (const char* wrong :
       {"", "zip", "groups", "groups 2 3", "groups 2.3", "groups -1", "groups 32", "groups x",
        "mask 1", "frequency 1 1 1 1 1", "frequency5 1 1 1 1 1", "frequency8 1 1 1 1", " raw",
        "raw ", "frequency8 1 1 1 1 1 predicted", "frequency8 1 1 1 1 1 reused 9",
        "groups 2 predicted 9"})
    EXPECT_EQ(saved_plan_from(wrong), std::nullopt) << wrong;
}

TEST(ScheduledPlan, IsShortAndReadableForPeople) {
  EXPECT_EQ(to_jsonl({25, controlled_plan()}),
            "{\"step\":25,\"batch\":128,\"micro_batch\":64,\"learning_rate_scale\":1.3333334,"
            "\"precisions\":\"hb\",\"learning_rate_scales\":[0.1,0.7]}");
}

TEST(ReadPlans, TakesAFileWrittenByHand) {
  const auto plans = plans_in("{\"step\":0,\"batch\":96,\"precisions\":\"fbhi\"}");
  ASSERT_EQ(plans.size(), 1u);
  EXPECT_EQ(plans[0].plan.micro_batch_size, 96);
  EXPECT_EQ(plans[0].plan.layers[3].compute, Precision::Int8);
  EXPECT_EQ(plans[0].plan.layers[3].learning_rate_scale, 1);
}

TEST(ReadPlans, KeepsThePlansThatCameIntoForce) {
  const auto line = [](std::int64_t step, std::int64_t batch) {
    return to_jsonl({step, plan_with_batch(batch)}) + '\n';
  };
  EXPECT_EQ(plans_in(line(0, 100) + line(0, 90)),
            (std::vector{ScheduledPlan{0, plan_with_batch(90)}}))
      << "given up before its first step";
  EXPECT_EQ(plans_in(line(0, 100) + line(25, 110) + line(50, 120) + line(30, 100)),
            (std::vector<ScheduledPlan>{
                {0, plan_with_batch(100)}, {25, plan_with_batch(110)}, {30, plan_with_batch(100)}}))
      << "the run rolled back to step 30";
}

TEST(ReadPlans, LeavesOutATornLastLine) {
  const std::string whole = to_jsonl({0, controlled_plan()});
  for (std::size_t cut = 1; cut < whole.size(); ++cut)
    EXPECT_EQ(plans_in(whole + '\n' + whole.substr(0, cut)).size(), 1u) << cut;
}

TEST(ReadPlans, NamesFileAndLineOfWhatIsWrong) {
  const std::string good = "{\"step\":0,\"batch\":96,\"precisions\":\"fb\"}\n";
  for (const std::string bad :
       {"", "[]", "{\"batch\":96,\"precisions\":\"fb\"}",
        "{\"step\":-1,\"batch\":96,\"precisions\":\"fb\"}", "{\"step\":1,\"precisions\":\"fb\"}",
        "{\"step\":1,\"batch\":0,\"precisions\":\"fb\"}", "{\"step\":1,\"batch\":96}",
        "{\"step\":1,\"batch\":96,\"precisions\":\"fx\"}",
        "{\"step\":1,\"batch\":96,\"precisions\":\"fbb\"}",
        "{\"step\":1,\"batch\":96,\"micro_batch\":97,\"precisions\":\"fb\"}",
        "{\"step\":1,\"batch\":96,\"precisions\":\"fb\",\"learning_rate_scales\":[1]}",
        "{\"step\":1,\"batch\":96,\"precisions\":\"fb\",\"learning_rate_scales\":[1,-1]}",
        "{\"step\":1,\"batch\":96,\"precisions\":\"fb\",\"learning_rate_scale\":null}",
        "{\"step\":1,\"batch\":96,\"precisions\":\"fb\",\"formats\":\"r\"}",
        "{\"step\":1,\"batch\":96,\"precisions\":\"fb\",\"formats\":\"rx\"}",
        "{\"step\":1,\"batch\":96,\"precisions\":\"fb\",\"saved\":[\"groups\"]}",
        "{\"step\":1,\"batch\":96,\"precisions\":\"fb\",\"saved\":\"raw\"}"}) {
    try {
      plans_in(good + bad + '\n');
      ADD_FAILURE() << "read " << bad;
    } catch (const StorageError& error) {
      EXPECT_NE(std::string(error.what()).find("plans.jsonl:2: "), std::string::npos)
          << error.what();
    }
  }
  EXPECT_THROW(plans_in(good + "{\"step\":1}"), StorageError) << "whole, though the file ends here";
  EXPECT_THROW(read_plans("/nonexistent/plans.jsonl"), StorageError);
}

TEST(MetricsFiles, WriteAPlanWheneverItChanges) {
  ScratchDirectory scratch;
  MetricsFiles files(scratch.path(), {});
  files.start(sample_info());
  files.plan(0, plan_with_batch(96));
  files.interval(sample_report(10), plan_with_batch(96));
  files.plan(10, plan_with_batch(112));
  files.interval(sample_report(20), plan_with_batch(112));
  files.plan(23, plan_with_batch(64));
  files.interval(sample_report(30), plan_with_batch(64));
  EXPECT_EQ(read_plans(scratch.path() / kPlansJsonl),
            (std::vector<ScheduledPlan>{
                {0, plan_with_batch(96)}, {10, plan_with_batch(112)}, {23, plan_with_batch(64)}}));
}

TEST(MetricsFiles, TakePlansFromIntervalsWhereNobodyTellsOfThem) {
  ScratchDirectory scratch;
  MetricsFiles files(scratch.path(), {});
  files.interval(sample_report(10), plan_with_batch(96));
  files.interval(sample_report(20), plan_with_batch(96));
  files.interval(sample_report(30), plan_with_batch(112));
  EXPECT_EQ(read_plans(scratch.path() / kPlansJsonl),
            (std::vector<ScheduledPlan>{{0, plan_with_batch(96)}, {20, plan_with_batch(112)}}));
}

TEST(MetricsFiles, TellAPlanAgainWhenTheRunWentBackToBeforeIt) {
  ScratchDirectory scratch;
  MetricsFiles files(scratch.path(), {});
  files.plan(0, plan_with_batch(96));
  files.plan(30, plan_with_batch(112));
  files.plan(50, plan_with_batch(96));
  files.plan(20, plan_with_batch(96));
  EXPECT_EQ(read_plans(scratch.path() / kPlansJsonl),
            (std::vector<ScheduledPlan>{{0, plan_with_batch(96)}, {20, plan_with_batch(96)}}));
}

TEST(MetricsFiles, ResumeCutsThePlansBackToTheCheckpoint) {
  const auto play = [](MetricsFiles& files, std::int64_t from, std::int64_t to) {
    for (std::int64_t step = from; step < to; step += 10)
      files.plan(step, plan_with_batch(96 + step));
  };
  ScratchDirectory whole;
  MetricsFiles uninterrupted(whole.path(), {});
  play(uninterrupted, 0, 100);
  ScratchDirectory cut;
  {
    MetricsFiles files(cut.path(), {});
    play(files, 0, 80);
  }
  std::ofstream(cut.path() / kPlansJsonl, std::ios::app) << "{\"step\":80,\"ba";
  MetricsFiles resumed(cut.path(), {.resume_after_step = 50});
  play(resumed, 50, 100);
  EXPECT_EQ(file_text(cut.path() / kPlansJsonl), file_text(whole.path() / kPlansJsonl));
}

TEST(MetricsFiles, ResumeDoesNotRepeatAPlanThatStillHolds) {
  ScratchDirectory scratch;
  {
    MetricsFiles files(scratch.path(), {});
    files.plan(0, sample_plan());
  }
  MetricsFiles files(scratch.path(), {.resume_after_step = 50});
  files.plan(50, sample_plan());
  EXPECT_EQ(read_plans(scratch.path() / kPlansJsonl).size(), 1u);
}

}  // namespace
}  // namespace triaccel
