#include "triaccel/telemetry/records/zeroth_order_file.h"

#include <fmt/format.h>

#include <charconv>
#include <string>
#include <string_view>

#include "triaccel/base/error.h"

namespace triaccel {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFileHeader = "step,learning_rate,gradients\n";

std::string line_of(const ZerothOrderStep& step) {
  std::string line = fmt::format("{},{}", step.step, step.learning_rate);
  for (const float gradient : step.gradients) line += fmt::format(",{}", gradient);
  return line + '\n';
}

/// Parses a number at the front of `rest` and skips the comma after it.
template <typename Number>
bool take(std::string_view& rest, Number& number) {
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
  if (error != std::errc()) return false;
  rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
  if (rest.empty()) return true;
  const bool comma = rest.front() == ',';
  rest.remove_prefix(1);
  return comma;
}

std::optional<ZerothOrderStep> step_of(std::string_view line) {
  ZerothOrderStep step;
  if (!take(line, step.step) || !take(line, step.learning_rate)) return {};
  while (!line.empty())
    if (!take(line, step.gradients.emplace_back())) return {};
  return step;
}

}  // namespace

ZerothOrderFile::ZerothOrderFile(const fs::path& directory, std::int64_t steps_done)
    : path_(directory / kZerothOrderCsv) {
  if (!fs::exists(path_)) return;
  if (steps_done == 0) {
    fs::remove(path_);
    return;
  }
  std::string kept(kFileHeader);
  for (const ZerothOrderStep& step : read_zeroth_order(path_))
    if (step.step < steps_done) kept += line_of(step);
  write_atomically(path_, kept);
  file_.emplace(AppendedFile::open_at_end(path_));
}

void ZerothOrderFile::interval(const StepReport& report, const StepPlan&) {
  if (report.zeroth_order.empty()) return;
  std::string lines;
  if (!file_) {
    file_.emplace(AppendedFile::create(path_));
    lines = kFileHeader;
  }
  for (const ZerothOrderStep& step : report.zeroth_order) lines += line_of(step);
  file_->append(lines);
}

std::vector<ZerothOrderStep> read_zeroth_order(const fs::path& path) {
  constexpr std::int64_t max_bytes = std::int64_t{1} << 32;
  const std::string all = read_text_file(path, max_bytes);
  std::string_view rest(all);
  std::vector<ZerothOrderStep> steps;
  for (std::int64_t number = 1; rest.find('\n') != rest.npos; ++number) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(line.size() + 1);
    if (number == 1) continue;  // the header
    const auto step = step_of(line);
    if (!step || step->step < 0 || step->step > static_cast<std::int64_t>(steps.size()))
      throw StorageError(
          text(path.string(), ":", number, ": expected the next step; is the file damaged?"));
    steps.resize(static_cast<std::size_t>(step->step));
    steps.push_back(*step);
  }
  return steps;
}

}  // namespace triaccel
