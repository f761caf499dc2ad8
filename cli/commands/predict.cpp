#include "triaccel/trainer/evaluate/predict.h"

#include <fmt/core.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "cli/commands/commands.h"
#include "cli/run_console.h"
#include "triaccel/device/first_product.h"
#include "triaccel/telemetry/console/progress_text.h"
#include "triaccel/telemetry/records/json_fields.h"

namespace triaccel::cli {
namespace {

/// A name as a cell of CSV.
std::string csv_name(const std::string& name) {
  const std::string shown = printable(name);
  if (shown.find_first_of("\",") == std::string::npos) return shown;
  std::string cell = "\"";
  for (const char letter : shown) cell += letter == '"' ? "\"\"" : std::string(1, letter);
  return cell + "\"";
}

}  // namespace

void add_predict(CLI::App& program) {
  struct Arguments {
    std::string run, images, device;
    bool json = false;
  };
  CLI::App* command =
      program.add_subcommand("predict", "Classify images with a run's latest checkpoint");
  command->footer(
      "Reads IDX images (names with 'idx3-ubyte' or ending in .idx, also gzipped) and safetensors\n"
      "files with tensors of type U8 and shape [N, C, H, W], [N, H, W] or [H, W]; of a folder, "
      "all\n"
      "such files. Images must have the size and channels of the run's data set. Its files must "
      "be\n"
      "present: pixels are normalized as in training. Prints CSV: file,image,class,probability.\n\n"
      "Example:\n  triaccel predict runs/mnist t10k-images-idx3-ubyte.gz");
  auto arguments = std::make_shared<Arguments>();
  command->add_option("run", arguments->run, "folder of the run")->required();
  command->add_option("images", arguments->images, "file, or folder of files")->required();
  command->add_option("--device", arguments->device, "auto, cpu or cuda (default: as trained)");
  command->add_flag("--json", arguments->json, "print JSON");
  command->callback([arguments] {
    check_first_product(/*always=*/false);
    const std::vector<Prediction> found = predict_run(
        arguments->run, arguments->images,
        [&](RunConfig config) {
          if (!arguments->device.empty()) config.device.device = arguments->device;
          return config;
        },
        say_warning);
    if (!arguments->json) {
      fmt::print("file,image,class,probability\n");
      for (const Prediction& one : found)
        fmt::print("{},{},{},{:.6f}\n", csv_name(one.file), one.image, one.label, one.probability);
      return;
    }
    nlohmann::ordered_json all = {{"run", arguments->run},
                                  {"predictions", nlohmann::ordered_json::array()}};
    for (const Prediction& one : found)
      all["predictions"].push_back({{"file", one.file},
                                    {"image", one.image},
                                    {"class", one.label},
                                    {"probability", one.probability}});
    fmt::print("{}\n", dump_line(all));
  });
}

}  // namespace triaccel::cli
