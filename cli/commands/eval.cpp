#include <fmt/core.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/commands/commands.h"
#include "cli/config_options.h"
#include "cli/run_console.h"
#include "triaccel/base/error.h"
#include "triaccel/device/first_product.h"
#include "triaccel/telemetry/console/progress_text.h"
#include "triaccel/telemetry/records/json_fields.h"
#include "triaccel/trainer/loop/training.h"

namespace triaccel::cli {

void add_eval(CLI::App& program) {
  struct Arguments {
    std::unique_ptr<ConfigOptions> options;
    std::string run;
    bool json = false;
  };
  CLI::App* command =
      program.add_subcommand("eval", "Evaluate a run's latest checkpoint on its test set");
  command->footer(
      "With a run: --data, --data-root, --image-size, --rotate, --bad-data, --device, --threads "
      "and\n"
      "--budget evaluate it on other data or another device. Without a run: the weights of\n"
      "--init-from on the test set of the other options, in FP32 unless --method is given.");
  auto arguments = std::make_shared<Arguments>();
  command->add_option("run", arguments->run, "folder of the run");
  command->add_flag("--json", arguments->json, "print JSON");
  RunConfig defaults;
  defaults.train.method = TrainMethod::Fp32;  // weights alone have no plan of precisions
  arguments->options = std::make_unique<ConfigOptions>(*command, defaults);
  command->callback([arguments, defaults] {
    const ConfigOptions& options = *arguments->options;
    check_first_product(/*always=*/false);
    EvaluationReport report;
    if (arguments->run.empty()) {
      const RunConfig config = options.config(defaults);
      require(!config.model.init_from.empty(), "eval", "name a run, or weights with --init-from");
      report = evaluate_weights(config, say_warning);
    } else {
      report = evaluate_run(
          arguments->run,
          [&](RunConfig config) {
            return options.changed(std::move(config),
                                   {"--data", "--data-root", "--image-size", "--rotate",
                                    "--bad-data", "--device", "--threads", "--budget"});
          },
          say_warning);
    }
    if (arguments->json) {
      nlohmann::ordered_json json = {
          {"run", arguments->run},     {"step", report.step},
          {"samples", report.samples}, {"accuracy", 100 * report.accuracy},
          {"loss", report.loss},       {"seconds", report.seconds}};
      for (std::size_t i = 0; i < report.class_names.size(); ++i)
        json["classes"].push_back({{"name", report.class_names[i]},
                                   {"samples", report.class_samples[i]},
                                   {"accuracy", 100 * class_accuracy(report, i)}});
      fmt::print("{}\n", dump_line(json));
    } else {
      fmt::print("step {}: accuracy {:.2f} %, loss {:.4f} on {} samples in {:.1f} s\n", report.step,
                 100 * report.accuracy, report.loss, report.samples, report.seconds);
      for (std::size_t i = 0; i < report.class_names.size(); ++i)
        fmt::print("  {:>6.2f} % of {:>6}  {}\n", 100 * class_accuracy(report, i),
                   report.class_samples[i], printable(report.class_names[i]));
    }
  });
}

}  // namespace triaccel::cli
