#include <fmt/core.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/commands/commands.h"
#include "triaccel/base/error.h"
#include "triaccel/int8/network.h"
#include "triaccel/trainer/measure/step_bytes.h"

namespace triaccel::cli {
namespace {

using Json = nlohmann::ordered_json;

struct MemoryArguments {
  std::string model = "lenet5";
  std::vector<std::int64_t> batches = {32, 256};
  std::int64_t micro_batch = 32;
  std::int64_t threads = 1;
  bool json = false;
};

struct Convention {
  const char *title, *name;
  ByteCount count;
};

/// "ZO", "1 BP layer", …, "BP".
std::string label_of(std::int64_t bp_layers, std::int64_t layers) {
  if (bp_layers == 0) return "ZO";
  if (bp_layers == layers) return "BP";
  return fmt::format("{} BP layer{}", bp_layers, bp_layers == 1 ? "" : "s");
}

std::string size_text(std::int64_t bytes) {
  return fmt::format("{:.3f} MB", static_cast<double>(bytes) / 1e6);
}

double ratio(std::int64_t of, std::int64_t to) {
  return static_cast<double>(of) / static_cast<double>(to);
}

/// Bytes of a step with so many layers by backpropagation.
struct Row {
  std::string label;
  std::int64_t fp32, zo, paper;
  std::optional<std::int64_t> int8;  // ours: only by liveness
};

std::vector<Row> rows_of(const Convention& convention, const int8::Network& network,
                         const MemoryArguments& arguments, std::int64_t batch) {
  const std::int64_t layers = network.layer_count();
  const int8::StepOptions own{.micro_batch = static_cast<std::int32_t>(arguments.micro_batch),
                              .threads = {.count = static_cast<std::int32_t>(arguments.threads)}};
  std::vector<Row> rows;
  for (const std::int64_t bp_layers : std::vector<std::int64_t>{0, 1, 2, layers}) {
    const CountedStep step{.network = network, .batch = batch, .bp_layers = bp_layers};
    CountedStep alone = step;
    alone.bp_layers = 0;
    rows.push_back({.label = label_of(bp_layers, layers),
                    .fp32 = fp32_step_bytes(step, convention.count),
                    .zo = fp32_step_bytes(alone, convention.count),
                    .paper = int8_step_bytes(step, convention.count, int8::paper_conventions(own)),
                    .int8 = convention.count == ByteCount::Liveness
                                ? std::optional(int8_step_bytes(step, convention.count, own))
                                : std::nullopt});
  }
  return rows;
}

void print_convention(const Convention& convention, std::span<const Row> rows, std::int64_t batch) {
  fmt::print("\n{}, batch {}\n{:<12}{:>14}{:>10}{:>14}{:>10}{:>14}{:>10}\n", convention.title,
             batch, "", "FP32", "over ZO", "INT8", "less", "INT8 paper", "less");
  for (const Row& row : rows) {
    fmt::print("{:<12}{:>14}{:>9.3f}%", row.label, size_text(row.fp32),
               100 * (ratio(row.fp32, row.zo) - 1));
    if (row.int8)
      fmt::print("{:>14}{:>9.2f}x", size_text(*row.int8), ratio(row.fp32, *row.int8));
    else
      fmt::print("{:>14}{:>10}", "", "");
    fmt::print("{:>14}{:>9.2f}x\n", size_text(row.paper), ratio(row.fp32, row.paper));
  }
}

void memory_command(const MemoryArguments& arguments) {
  require(arguments.threads >= 1 && arguments.threads <= int8::kMostWorkers, "--threads",
          "must lie in [1, ", int8::kMostWorkers, "], got ", arguments.threads);
  require(arguments.micro_batch >= 0, "--micro-batch", "must not be negative, got ",
          arguments.micro_batch);
  for (const std::int64_t batch : arguments.batches)
    require(batch >= 1 && batch <= 1 << 24, "--batch", "must lie in [1, ", 1 << 24, "], got ",
            batch);
  const int8::Network network = arguments.model == "lenet5" ? int8::lenet5({}) : int8::pointnet({});
  Json predicted = Json::array();
  if (!arguments.json)
    fmt::print("Predicted memory of a training step of {}, from shapes; 1 MB = 1e6 bytes.\n",
               arguments.model);
  for (const std::int64_t batch : arguments.batches)
    for (const Convention& convention :
         {Convention{"every buffer once (the paper's figures)", "sum", ByteCount::Sum},
          Convention{"the same, errors stored in dead buffers", "sum_shared_errors",
                     ByteCount::SumSharedErrors},
          Convention{"peak of live buffers", "liveness", ByteCount::Liveness}}) {
      const std::vector<Row> rows = rows_of(convention, network, arguments, batch);
      if (!arguments.json) print_convention(convention, rows, batch);
      for (const Row& row : rows)
        predicted.push_back({{"batch", batch},
                             {"count", convention.name},
                             {"layers", row.label},
                             {"fp32_bytes", row.fp32},
                             {"int8_bytes", row.int8 ? Json(*row.int8) : Json()},
                             {"int8_paper_bytes", row.paper}});
    }
  if (arguments.json) {
    fmt::print("{}\n", Json{{"model", arguments.model}, {"predicted", predicted}}.dump());
    return;
  }
  fmt::print(
      "\nINT8 paper: one exponent per tensor, int32 sums of the whole batch. INT8: one exponent "
      "per "
      "sample, {} samples at a time, {} {}.\nThe paper's abstract: one or two BP layers cost 0.072 "
      "to 1.7 % over ZO; INT8 takes 1.46 to 1.60 times less than FP32.\n",
      arguments.micro_batch, arguments.threads, arguments.threads == 1 ? "thread" : "threads");
}

}  // namespace

void add_memory(CLI::App& program) {
  CLI::App* command = program.add_subcommand(
      "memory", "Predict the memory of ElasticZO steps without running them");
  auto arguments = std::make_shared<MemoryArguments>();
  command->add_option("--model", arguments->model, "lenet5 or pointnet")
      ->check(CLI::IsMember({"lenet5", "pointnet"}))
      ->capture_default_str();
  command->add_option("--batch", arguments->batches, "batch sizes, separated by commas")
      ->delimiter(',')
      ->default_str("32,256");
  command
      ->add_option("--micro-batch", arguments->micro_batch,
                   "INT8: samples per forward pass (0: the whole batch)")
      ->capture_default_str();
  command
      ->add_option("--threads", arguments->threads, "INT8: CPU threads, each with its own buffers")
      ->capture_default_str();
  command->add_flag("--json", arguments->json, "print JSON");
  command->callback([arguments] { memory_command(*arguments); });
}

}  // namespace triaccel::cli
