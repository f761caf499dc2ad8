#pragma once

#include <functional>
#include <ostream>
#include <string>

#include "triaccel/base/clock.h"
#include "triaccel/telemetry/console/progress_text.h"
#include "triaccel/telemetry/sink.h"

namespace triaccel {

struct ProgressOptions {
  bool terminal = false;              // true: one live line; false: plain lines, rate-limited
  int columns = 80;                   // width of the terminal
  double seconds_between_lines = 10;  // between two plain lines
  bool color = false;                 // the caller checks NO_COLOR and its own flags
  bool unicode = true;                // false: ASCII bar
  std::function<int()> current_columns =
      {};  // called before each redraw, since terminals can be resized
};

/// Shows the progress of a run. On a terminal one line is updated in place, with notices and
/// evaluation results printed above it; otherwise (file, pipe, batch system) prints plain lines
/// without control characters.
class ProgressLine final : public Sink {
 public:
  /// `out` must outlive this sink.
  ProgressLine(std::ostream& out, ProgressOptions options);
  /// Ends the live line with a newline.
  ~ProgressLine() override;
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void start(const RunInfo& info) override;
  void interval(const StepReport& report, const StepPlan& plan) override;
  void evaluation(const EvaluationReport& report) override;
  void notice(const std::string& message) override;
  void finish(const RunSummary& summary) override;

 private:
  void draw();
  void print_above(const std::string& line);
  int columns() const;

  std::ostream& out_;
  ProgressOptions options_;
  ProgressState state_;
  FieldWidths widths_;
  Stopwatch since_drawn_;
  bool drawn_once_ = false;  // since the start of the run
  bool live_ = false;        // the cursor is on the live line
  bool pending_ = false;     // the state changed since the last redraw
};

}  // namespace triaccel
