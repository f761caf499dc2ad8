#pragma once

#include <functional>
#include <ostream>
#include <string>

#include "triaccel/base/clock.h"
#include "triaccel/telemetry/console/progress_text.h"
#include "triaccel/telemetry/sink.h"

namespace triaccel {

struct ProgressOptions {
  bool terminal = false;              // one live line; otherwise plain lines, rate-limited
  int columns = 80;                   // width of the terminal
  double seconds_between_lines = 10;  // between two plain lines
  bool color = false;                 // the caller has looked at NO_COLOR and at its own flags
  bool unicode = true;                // false: a bar of ASCII characters
  std::function<int()> current_columns = {};  // asked before each redraw: terminals are resized
};

/// Shows a run to a person. On a terminal one line is rewritten in place, and notices and results
/// of evaluations scroll by above it; elsewhere (a file, a pipe, a batch system) plain lines
/// without control characters.
class ProgressLine final : public Sink {
 public:
  /// `out` must outlive this sink.
  ProgressLine(std::ostream& out, ProgressOptions options);
  /// Ends the live line, so that what the program prints next starts on its own line.
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
  bool live_ = false;        // the cursor stands on the live line
  bool pending_ = false;     // the state has moved on since it was last drawn
};

}  // namespace triaccel
