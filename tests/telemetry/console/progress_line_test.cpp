#include "triaccel/telemetry/console/progress_line.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>

#include "tests/telemetry/sample_run.h"

namespace triaccel {
namespace {

/// Cells a terminal would use: escape sequences take none, a UTF-8 character takes one.
int cells(const std::string& line) {
  int count = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\x1b') {
      while (i < line.size() && !std::isalpha(static_cast<unsigned char>(line[i]))) ++i;
    } else if ((static_cast<unsigned char>(line[i]) & 0xC0) != 0x80) {
      ++count;
    }
  }
  return count;
}

void play(Sink& sink, std::int64_t intervals) {
  sink.start(sample_info());
  for (std::int64_t i = 1; i <= intervals; ++i) sink.interval(sample_report(10 * i), sample_plan());
  sink.evaluation(sample_evaluation(10 * intervals));
  sink.notice("bf16 is emulated here");
  sink.finish(sample_summary(10 * intervals));
}

ProgressState sample_state() {
  ProgressState state{.info = sample_info()};
  add_interval(state, sample_report(40), sample_plan());
  return state;
}

TEST(LiveLine, FitsEveryWidth) {
  ProgressState extreme = sample_state();
  extreme.report.loss = -std::numeric_limits<double>::infinity();
  extreme.report.epoch = 1e15;
  extreme.report.accuracy = std::numeric_limits<double>::quiet_NaN();
  extreme.report.learning_rate = 1e-300;
  extreme.report.memory.peak = std::numeric_limits<std::int64_t>::max();
  extreme.samples_per_second = 1e-9;
  ProgressState endless = sample_state();
  endless.info.total_samples = 0;
  for (const ProgressState& state : {sample_state(), extreme, endless, ProgressState{}})
    for (int columns = 1; columns <= 200; ++columns)
      for (const bool color : {false, true}) {
        FieldWidths widths{};
        const std::string line = live_line(state, {.columns = columns, .color = color}, widths);
        EXPECT_LT(cells(line), std::max(columns, 2)) << line;
      }
}

TEST(LiveLine, ShowsMemoryAgainstBudgetOnEightyColumns) {
  FieldWidths widths{};
  const std::string line = live_line(sample_state(), {.columns = 80}, widths);
  for (const char* part : {"13%", "epoch 0.4/3", "loss 0.056", "acc 62.5%", "212/300 MiB", "eta"})
    EXPECT_NE(line.find(part), std::string::npos) << part << " in: " << line;
}

TEST(LiveLine, ShowsEverythingWhereThereIsRoom) {
  FieldWidths widths{};
  const std::string line = live_line(sample_state(), {.columns = 160}, widths);
  for (const char* part : {"1.00k/s", "batch 96", "fp32 1 bf16 1", "lr 1.00e-01"})
    EXPECT_NE(line.find(part), std::string::npos) << part << " in: " << line;
}

TEST(LiveLine, ShowsWhatTheControlLoopDecidesOnEightyColumns) {
  ProgressState state = sample_state();
  state.info.method = "triaccel";
  state.plan.layers.assign(21, {.compute = Precision::Bf16});
  for (std::size_t i = 0; i < 3; ++i) state.plan.layers[i].compute = Precision::Fp32;
  for (int columns = 1; columns <= 200; ++columns) {
    FieldWidths widths{};
    EXPECT_LT(cells(live_line(state, {.columns = columns}, widths)), std::max(columns, 2));
  }
  FieldWidths widths{};
  const std::string line = live_line(state, {.columns = 80}, widths);
  for (const char* part : {"loss 0.056", "212/300 MiB", "batch 96", "bf16 18 fp32 3", "eta"})
    EXPECT_NE(line.find(part), std::string::npos) << part << " in: " << line;
}

TEST(LiveLine, KeepsTheLossOnTwentyColumns) {
  FieldWidths widths{};
  EXPECT_NE(live_line(sample_state(), {.columns = 20}, widths).find("loss 0.056"),
            std::string::npos);
}

TEST(LiveLine, DoesNotMoveWhenAValueGetsShorter) {
  FieldWidths widths{};
  ProgressState state = sample_state();
  state.plan.batch_size = 1024;
  const std::string wide = live_line(state, {.columns = 160}, widths);
  state.plan.batch_size = 96;
  const std::string narrow = live_line(state, {.columns = 160}, widths);
  EXPECT_EQ(wide.find("lr"), narrow.find("lr"));
}

TEST(LiveLine, UsesNeitherColorNorUnicodeWhenToldNotTo) {
  FieldWidths widths{};
  for (const char c : live_line(sample_state(), {.columns = 120, .unicode = false}, widths))
    EXPECT_TRUE(c >= 0x20 && c < 0x7f);
}

TEST(ProgressLine, WritesNoControlCharacterWhereThereIsNoTerminal) {
  std::ostringstream out;
  ProgressLine line(out, {.seconds_between_lines = 0, .color = true});
  play(line, 3);
  line.notice("evil \x1b[2J \r\n name \xC2\x9B");
  for (const char c : out.str())
    EXPECT_TRUE(c == '\n' || static_cast<unsigned char>(c) >= 0x20) << static_cast<int>(c);
  EXPECT_EQ(out.str().find("\xC2\x9B"), std::string::npos);
}

TEST(Printable, EscapesControlCharactersOfNamesFromOutside) {
  EXPECT_EQ(printable("a\x1b[2Jb\tc\x7f"), "a\\x1b[2Jb\\x09c\\x7f");
  EXPECT_EQ(printable("two\nlines"), "two\\nlines");
  EXPECT_EQ(printable("two\nlines\r", "\n"), "two\nlines\\x0d");
  EXPECT_EQ(printable("caf\xC3\xA9 \xC2\x9B"), "caf\xC3\xA9 \\u009b");
  EXPECT_EQ(printable("\x9B"
                      "2J \xFF \xC3"),
            "\\x9b2J \\xff \\xc3")
      << "not UTF-8";
  EXPECT_EQ(printable("\xE2\x82\xAC \xF0\x9F\x98\x80"), "\xE2\x82\xAC \xF0\x9F\x98\x80");
}

TEST(ProgressText, ShowsALossThatIsNotFinite) {
  ProgressState state = sample_state();
  state.report.loss = std::numeric_limits<double>::infinity();
  FieldWidths widths{};
  EXPECT_NE(plain_line(state).find("loss inf"), std::string::npos);
  EXPECT_NE(live_line(state, {.columns = 80}, widths).find("loss"), std::string::npos);
  RunSummary summary = sample_summary(10);
  summary.loss = state.report.loss;
  EXPECT_NE(finish_line(summary).find("loss inf"), std::string::npos) << finish_line(summary);
  summary.accuracy = std::nan("");  // never evaluated
  EXPECT_EQ(finish_line(summary).find("nan"), std::string::npos) << finish_line(summary);
}

TEST(ProgressLine, LimitsTheRateOfPlainLinesButShowsTheFirstAndTheLast) {
  std::ostringstream out;
  ProgressLine line(out, {.seconds_between_lines = 3600});
  play(line, 50);
  const std::string shown = out.str();
  EXPECT_NE(shown.find("step 10 "), std::string::npos);
  EXPECT_EQ(shown.find("step 20 "), std::string::npos);
  EXPECT_NE(shown.find("step 500 "), std::string::npos);
}

TEST(ProgressLine, PrintsNoticesAndEvaluationsAboveTheLiveLine) {
  std::ostringstream out;
  ProgressLine line(out, {.terminal = true, .columns = 80});
  line.start(sample_info());
  line.interval(sample_report(10), sample_plan());
  out.str("");
  line.notice("bf16 is emulated here");
  EXPECT_EQ(out.str().rfind("\r\x1b[Knote: bf16 is emulated here\n", 0), 0u) << out.str();
  EXPECT_NE(out.str().find("loss", out.str().find('\n')), std::string::npos);
  out.str("");
  line.evaluation(sample_evaluation(10));
  EXPECT_NE(out.str().find("test accuracy 87.50%  loss 0.4000"), std::string::npos) << out.str();
}

TEST(ProgressLine, FollowsATerminalThatIsResized) {
  std::ostringstream out;
  ProgressLine line(out, {.terminal = true, .columns = 200, .current_columns = [] { return 30; }});
  line.start(sample_info());
  out.str("");
  line.interval(sample_report(10), sample_plan());
  EXPECT_LT(cells(out.str()), 30 + 1);
}

TEST(ProgressLine, EndsTheLiveLineWhenTheRunIsAbandoned) {
  std::ostringstream out;
  {
    ProgressLine line(out, {.terminal = true});
    line.start(sample_info());
    line.interval(sample_report(10), sample_plan());
  }
  EXPECT_EQ(out.str().back(), '\n');
}

TEST(PrecisionMix, CountsLayersTheMostFirst) {
  StepPlan plan{.layers = std::vector<LayerPlan>(8)};
  EXPECT_EQ(precision_mix(plan), "fp32");
  for (std::size_t i = 0; i < 5; ++i) plan.layers[i].compute = Precision::Bf16;
  EXPECT_EQ(precision_mix(plan), "bf16 5 fp32 3");
  EXPECT_EQ(precision_mix({}), "");
}

TEST(DurationText, GrowsWithTheTime) {
  EXPECT_EQ(duration_text(6.2), "0:07");
  EXPECT_EQ(duration_text(754), "12:34");
  EXPECT_EQ(duration_text(3723), "1:02:03");
  EXPECT_EQ(duration_text(2 * 86400 + 3 * 3600 + 240), "2d 03:04");
  EXPECT_EQ(duration_text(-1), "-:--");
  EXPECT_EQ(duration_text(std::numeric_limits<double>::quiet_NaN()), "-:--");
}

TEST(ShareDone, IsThatOfTheScheduleWhereTheBatchGrows) {
  ProgressState state = sample_state();
  const double pace = state.samples_per_second;
  state.report.samples = 2 * state.info.total_samples;
  state.report.progress = 0.25;
  EXPECT_EQ(share_done(state), 0.25);
  EXPECT_NEAR(seconds_left(state), 6.0 * static_cast<double>(state.info.total_samples) / pace,
              1e-6);
}

TEST(SecondsLeft, CountsEvaluationsInTheProportionSeenSoFar) {
  ProgressState state = sample_state();
  EXPECT_NEAR(seconds_left(state), 2.6, 1e-9);
  state.evaluation_seconds = 0.05;
  EXPECT_NEAR(seconds_left(state), 3.9, 1e-9);
}

}  // namespace
}  // namespace triaccel
