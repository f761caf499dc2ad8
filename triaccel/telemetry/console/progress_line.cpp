#include "triaccel/telemetry/console/progress_line.h"

#include <utility>

namespace triaccel {
namespace {

constexpr double kSecondsBetweenRedraws = 0.08;
constexpr const char* kClearLine = "\r\x1b[K";

}  // namespace

ProgressLine::ProgressLine(std::ostream& out, ProgressOptions options)
    : out_(out), options_(std::move(options)) {}

ProgressLine::~ProgressLine() {
  if (live_) out_ << '\n' << std::flush;
}

void ProgressLine::start(const RunInfo& info) {
  state_ = {.info = info};
  state_.info.layer_names.clear();
  widths_ = {};
  drawn_once_ = false;
  pending_ = false;
  print_above(start_line(info));
}

void ProgressLine::interval(const StepReport& report, const StepPlan& plan) {
  add_interval(state_, report, plan);
  pending_ = true;
  const double pause = options_.terminal ? kSecondsBetweenRedraws : options_.seconds_between_lines;
  if (!drawn_once_ || since_drawn_.seconds() >= pause) draw();
}

void ProgressLine::evaluation(const EvaluationReport& report) {
  state_.evaluation_seconds += report.seconds;
  print_above(evaluation_line(report, state_.info.epochs));
}

void ProgressLine::notice(const std::string& message) {
  const bool color = options_.terminal && options_.color;
  print_above((color ? "\x1b[33mnote:\x1b[0m " : "note: ") + printable(message, " "));
}

void ProgressLine::finish(const RunSummary& summary) {
  state_.finished = true;
  if (pending_ || options_.terminal) draw();
  if (live_) out_ << '\n';
  live_ = false;
  out_ << finish_line(summary) << '\n' << std::flush;
}

void ProgressLine::draw() {
  if (!options_.terminal) {
    out_ << plain_line(state_) << '\n' << std::flush;
  } else if (state_.report.step > 0) {
    // A single write, so that no partially drawn line is visible.
    out_ << kClearLine + live_line(state_, {columns(), options_.color, options_.unicode}, widths_)
         << std::flush;
    live_ = true;
  }
  drawn_once_ = true;
  pending_ = false;
  since_drawn_.restart();
}

void ProgressLine::print_above(const std::string& line) {
  if (!live_) {
    out_ << line << '\n' << std::flush;
    return;
  }
  out_ << kClearLine + line + '\n' +
              live_line(state_, {columns(), options_.color, options_.unicode}, widths_)
       << std::flush;
}

int ProgressLine::columns() const {
  const int asked = options_.current_columns ? options_.current_columns() : 0;
  return asked > 0 ? asked : options_.columns;
}

}  // namespace triaccel
