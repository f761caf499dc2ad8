#include "cli/reproduce/reproduce_fdsr.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "cli/config_options.h"
#include "cli/reproduce/fdsr_reproduction.h"
#include "cli/reproduce/make_rows.h"
#include "cli/reproduce/row_failures.h"
#include "cli/run_console.h"
#include "cli/stop_signals.h"
#include "cli/stored_run.h"
#include "triaccel/base/error.h"
#include "triaccel/base/version.h"
#include "triaccel/checkpoint/generations.h"
#include "triaccel/device/device_choice.h"
#include "triaccel/telemetry/records/run_record.h"
#include "triaccel/telemetry/tables/compression_table.h"
#include "triaccel/telemetry/tables/table_rows.h"
#include "triaccel/trainer/loop/run_directory.h"
#include "triaccel/trainer/loop/step_engine.h"
#include "triaccel/trainer/measure/gradient_quality.h"
#include "triaccel/trainer/measure/largest_batch.h"
#include "triaccel/trainer/measure/step_timing.h"

namespace triaccel::cli {
namespace {

namespace fs = std::filesystem;

struct FdsrArguments {
  const CLI::App* command = nullptr;
  std::unique_ptr<ConfigOptions> options;
  FdsrReproduction wanted;
  bool no_largest_batches = false;
};

/// FP32 bytes over bytes held, over all intervals of a run: a ratio that accuracy has lowered shows
/// here. NaN where nothing was coded.
double ratio_in_training(const fs::path& run) {
  double fp32 = 0, held = 0;
  for (const IntervalRecord& interval : read_run_record(run).metrics.intervals)
    if (const auto& saved = interval.report.saved) {
      fp32 += static_cast<double>(saved->fp32_bytes);
      held += static_cast<double>(saved->all_held_bytes());
    }
  return held > 0 ? fp32 / held : CompressionRow::kNot;
}

class FdsrTable {
 public:
  explicit FdsrTable(const FdsrReproduction& wanted) : wanted_(wanted), console_(/*quiet=*/false) {
    rows_ = read_compression_rows(wanted.out / kResultFile);
  }

  /// Refuses, before anything is measured, what the folder's runs contradict.
  void check(const FdsrPlan& plan) const {
    const RunConfig config = resolved(plan.config);
    if (plan.trained) require_same_run(folder_of(plan), config);
  }

  /// Makes a row. One that fails is reported, and what was measured before stays; the user's
  /// mistake ends the command.
  void make(const FdsrPlan& plan) {
    failures_.guard(plan.name(), [&] { add(plan); });
  }

  /// The table of what there is; answers with the exit code of the first row that failed.
  int finish() {
    std::vector<BitPicture> pictures;
    for (const CompressionRow& row : rows_) {
      const FdsrPlan plan{.row = row};
      const auto shown = [&](const BitPicture& other) { return other.title == plan.picture(); };
      if (row.codec != "fdsr" || std::ranges::any_of(pictures, shown)) continue;
      std::vector<SavedRow> saved = read_saved_rows(saved_folder(plan) / "saved.json");
      if (!saved.empty()) pictures.push_back({plan.picture(), std::move(saved)});
    }
    write_compression_files(wanted_.out, rows_, pictures);
    fmt::print("\n{}\nfiles: {}\n", compression_text(rows_), wanted_.out.string());
    return failures_.exit_code();
  }

 private:
  fs::path folder_of(const FdsrPlan& plan) const { return wanted_.out / "runs" / plan.name(); }
  fs::path saved_folder(const FdsrPlan& plan) const {
    return wanted_.out / "saved" / plan.picture();
  }

  /// The recorded row of the same network, settings and seed, of `codec`; null when there is none.
  const CompressionRow* recorded(CompressionRow like, const std::string& codec) const {
    if (like.codec != codec) like.target_ratio = CompressionRow::kNot;
    like.codec = codec;
    const auto found = std::ranges::find_if(
        rows_, [&](const CompressionRow& other) { return same_run(other, like); });
    return found == rows_.end() ? nullptr : &*found;
  }

  void add(const FdsrPlan& plan) {
    CompressionRow row = plan.row;
    if (const CompressionRow* known = recorded(row, row.codec)) row = *known;
    fmt::print(stderr, "{}\n", plan.name());
    const RunConfig config = resolved(plan.config);
    measure(row, config);
    record(row);
    const bool seeks = wanted_.largest_batches && plan.config.train.seed == wanted_.seeds.front();
    if (seeks && row.largest_batch == 0 && row.budget_bytes > 0)
      row.largest_batch = largest_batch(config, row.budget_bytes);
    if (row.codec == "fdsr" && !fs::exists(saved_folder(plan) / "saved.json"))
      draw_bits(plan, config);
    record(row);
    if (plan.trained) train(row, plan);
    record(row);
    judge_gradient(row, plan);
    record(row);
  }

  void record(const CompressionRow& row) {
    rows_ = record_compression_rows(wanted_.out / kResultFile, std::vector{row});
    if (stop_signal() != 0) throw Interrupted{128 + stop_signal()};
  }

  /// Bytes and speed, unless they are known.
  void measure(CompressionRow& row, const RunConfig& config) const {
    if (std::isfinite(row.samples_per_second)) return;
    const bool on_gpu = choose_device(config.device.device).is_cuda();
    const StepTiming timing = time_steps(config, {.samples = static_cast<int>(wanted_.timings),
                                                  .steps_per_sample = on_gpu ? 10 : 1});
    row.commit = build_commit();
    row.peak_bytes = timing.peak_allocated_bytes;
    row.samples_per_second = 1e3 * static_cast<double>(row.batch) / timing.ms;
    if (row.codec == "fp32") row.held_ratio = 1;
    if (timing.saved) {
      row.held_bytes = timing.saved->all_held_bytes();
      row.fp32_bytes = timing.saved->fp32_bytes;
      row.passed_bytes = timing.saved->passed_bytes;
      row.held_ratio = static_cast<double>(row.fp32_bytes) /
                       static_cast<double>(std::max<std::int64_t>(1, row.held_bytes));
    }
    // What a device's allocator took, which may be more than what lies in tensors.
    if (row.codec == "fp32") row.budget_bytes = timing.peak_reserved_bytes;
    const CompressionRow* fp32 = row.codec == "fp32" ? &row : recorded(row, "fp32");
    if (fp32 == nullptr || !std::isfinite(fp32->samples_per_second)) return;
    row.peak_ratio = static_cast<double>(fp32->peak_bytes) / static_cast<double>(row.peak_bytes);
    row.throughput_ratio_to_fp32 = row.samples_per_second / fp32->samples_per_second;
    row.budget_bytes = fp32->budget_bytes;
  }

  void draw_bits(const FdsrPlan& plan, const RunConfig& config) const {
    RunParts parts(config);
    const SavedSurvey survey = survey_saved(parts);
    const fs::path folder = saved_folder(plan);
    fs::create_directories(folder);
    write_saved_files(
        folder,
        saved_rows_of(survey, {.activations = config.activations, .samples = config.train.batch}),
        plan.picture());
  }

  void train(CompressionRow& row, const FdsrPlan& plan) {
    const fs::path folder = folder_of(plan);
    const RunSummary summary = run_in(folder, plan.config, console_);
    row.accuracy = summary.accuracy;
    row.commit = summary.commit;
    row.training_ratio = ratio_in_training(folder);
    const CompressionRow* fp32 = row.codec == "fp32" ? &row : recorded(row, "fp32");
    if (fp32 != nullptr) row.accuracy_drop = fp32->accuracy - row.accuracy;
  }

  /// At the weights that FP32 of the same seed has ended with.
  void judge_gradient(CompressionRow& row, const FdsrPlan& plan) const {
    if (plan.config.activations.keep == "raw" || std::isfinite(row.gradient_error)) return;
    FdsrPlan fp32 = plan;
    fp32.row.codec = "fp32";
    const auto stored = list_generations(folder_of(fp32) / kCheckpointFolder);
    if (stored.empty()) return;
    RunConfig config = plan.config;
    config.model.init_from = (stored.front().path / kWeightsFile).string();
    const GradientQuality quality =
        GradientJudge(config).judge({.activations = plan.config.activations,
                                     .by_layer = plan.config.activations.keep == "coded"},
                                    wanted_.draws);
    row.gradient_error = quality.error;
    row.gradient_bias = quality.bias;
    row.gradient_cosine = quality.cosine;
  }

  const FdsrReproduction& wanted_;
  RunConsole console_;
  std::vector<CompressionRow> rows_;
  RowFailures failures_;
};

RunConfig codec_defaults() {
  RunConfig config;
  config.train.epochs = 30;
  config.run.out = "runs/reproduce-fdsr";
  return config;
}

/// What the comparison itself sets.
std::vector<LeftOut> set_by_codec_rows() {
  return {{"--method", "reproduce takes --codecs, of which fp32 and amp are methods"},
          {"--activations", "reproduce takes --codecs"},
          {"--model", "reproduce takes --rows"},
          {"--stem", "reproduce takes the stem with the network: --rows resnet18-cifar@32/128"},
          {"--image-size", "reproduce takes it with the network: --rows resnet50@224/64"},
          {"--batch", "reproduce takes it with the network: --rows resnet50@224/64"},
          {"--data", "reproduce takes --sets"},
          {"--seed", "reproduce takes --seeds"},
          {"--budget", "the budget of the largest batch is what FP32 took"},
          {"--init-from", "every row starts from fresh weights"},
          {"--steps", "reproduce takes --epochs"},
          {"--name", "reproduce names its runs itself, below --out"}};
}

int fdsr_command(FdsrArguments& arguments) {
  FdsrReproduction& wanted = arguments.wanted;
  wanted.base = arguments.options->config(codec_defaults());
  wanted.epochs = wanted.quick ? std::min(wanted.base.train.epochs, 1.0) : wanted.base.train.epochs;
  wanted.out = std::exchange(wanted.base.run.out, "");
  wanted.base.run.name.clear();
  wanted.largest_batches = !arguments.no_largest_batches;
  if (wanted.quick && arguments.command->count("--rows") == 0)
    wanted.rows = {"resnet18-cifar@32/16"};
  require(wanted.timings >= 1, "--timings", "must be at least 1, got ", wanted.timings);
  require(wanted.draws >= 2, "--draws", "must be at least 2, got ", wanted.draws);
  require(!wanted.seeds.empty(), "--seeds", "give at least one");
  const std::vector<FdsrPlan> plans = fdsr_plans(wanted);
  FdsrTable table(wanted);
  for (const FdsrPlan& plan : plans) table.check(plan);
  fs::create_directories(wanted.out);
  watch_stop_signals();
  return make_rows(table, plans);
}

}  // namespace

void add_reproduce_fdsr(CLI::App& reproduce, int& exit_code) {
  CLI::App* command = reproduce.add_subcommand(
      "fdsr",
      "Compare coded activations with FP32, AMP and other systems' codecs: bytes, speed, largest "
      "batch, accuracy and gradients, beside the abstract's figures");
  auto arguments = std::make_shared<FdsrArguments>();
  FdsrReproduction& wanted = arguments->wanted;
  const auto list = [&](const char* flag, auto& values, const char* help) {
    return command->add_option(flag, values, help)->delimiter(',')->capture_default_str();
  };
  list("--rows", wanted.rows, "network@pixels/batch; those of 32 pixels are trained");
  list("--sets", wanted.data, "to train on: cifar10, cifar100, …");
  list("--codecs", wanted.codecs, "to measure");
  list("--trained", wanted.trained, "of them: those to train, for accuracy and gradients");
  list("--seeds", wanted.seeds, "one run each");
  command->add_option("--timings", wanted.timings, "of a step")->capture_default_str();
  command->add_option("--draws", wanted.draws, "of random offsets, for the quality of gradients")
      ->capture_default_str();
  command->add_flag("--no-largest-batch", arguments->no_largest_batches,
                    "leave out the search for the largest batch in FP32's memory");
  command->add_flag("--quick", wanted.quick, "one slim network, few samples, one epoch");
  command->add_flag("--shared", wanted.shared, "others use the machine too: times do not count");
  arguments->command = command;
  arguments->options =
      std::make_unique<ConfigOptions>(*command, codec_defaults(), set_by_codec_rows());
  command->callback([arguments, &exit_code] { exit_code = fdsr_command(*arguments); });
}

}  // namespace triaccel::cli
