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
      "Reads PNG and JPEG files, which are resized; and, of the size and channels of the run's "
      "data\n"
      "set, IDX images (names with 'idx3-ubyte' or ending in .idx, also gzipped) and safetensors\n"
      "files with tensors of type U8 and shape [N, C, H, W], [N, H, W] or [H, W]. Of a folder, "
      "all\n"
      "such files. The files of the run's data set must be present: pixels are normalized as in\n"
      "training. Prints CSV: file,image,class,probability and, for your own data, the class "
      "name.\n\n"
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
      const bool named = !found.empty() && !found.front().name.empty();
      fmt::print("file,image,class,probability{}\n", named ? ",name" : "");
      for (const Prediction& one : found)
        fmt::print("{},{},{},{:.6f}{}\n", csv_name(one.file), one.image, one.label, one.probability,
                   named ? "," + csv_name(one.name) : "");
      return;
    }
    nlohmann::ordered_json all = {{"run", arguments->run},
                                  {"predictions", nlohmann::ordered_json::array()}};
    for (const Prediction& one : found) {
      nlohmann::ordered_json entry = {{"file", one.file},
                                      {"image", one.image},
                                      {"class", one.label},
                                      {"probability", one.probability}};
      if (!one.name.empty()) entry["name"] = one.name;
      all["predictions"].push_back(std::move(entry));
    }
    fmt::print("{}\n", dump_line(all));
  });
}

}  // namespace triaccel::cli
