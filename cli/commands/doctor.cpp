#include <ATen/Parallel.h>
#include <fmt/core.h>
#include <torch/version.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands/commands.h"
#include "cli/exit_codes.h"
#include "triaccel/base/byte_size.h"
#include "triaccel/base/version.h"
#include "triaccel/data/own_data.h"
#include "triaccel/device/cuda_memory.h"
#include "triaccel/device/device_choice.h"
#include "triaccel/device/first_product.h"
#include "triaccel/device/memory_gauge.h"
#include "triaccel/formats/data_root.h"
#include "triaccel/telemetry/console/progress_text.h"
#include "triaccel/telemetry/records/json_fields.h"
#include "triaccel/trainer/measure/format_support.h"

namespace triaccel::cli {
namespace {

std::string cuda_text() {
  if (!TRIACCEL_HAS_CUDA) return "not in this build (configure with -DTRIACCEL_CUDA=ON)";
  return cuda_available() ? "built in, device found" : "built in, but no usable device found";
}

std::string allocator_text(c10::Device device) {
  return device.is_cuda() ? "libtorch's caching allocator, limited to the budget"
                          : "counting allocator: exact bytes, hard limit at the budget";
}

void print_json(c10::Device device, const std::vector<FormatSupport>& formats) {
  nlohmann::ordered_json json = {{"version", version()},
                                 {"commit", build_commit()},
                                 {"torch", TORCH_VERSION},
                                 {"cuda", cuda_text()},
                                 {"device", device_text(device)},
                                 {"device_bytes", device_total_bytes(device)},
                                 {"threads", at::get_num_threads()},
                                 {"allocator", allocator_text(device)},
                                 {"formats", nlohmann::ordered_json::array()}};
  for (const FormatSupport& cell : formats)
    json["formats"].push_back({{"operation", cell.operation},
                               {"precision", name_of(cell.precision)},
                               {"support", cell.support},
                               {"why", cell.why},
                               {"speed_to_fp32", cell.speed}});
  fmt::print("{}\n", dump_line(json));
}

void print_text(c10::Device device, const std::vector<FormatSupport>& formats) {
  fmt::print("triaccel   {} ({}), libtorch {}\n", version(), build_commit(), TORCH_VERSION);
  fmt::print("CUDA       {}\n", cuda_text());
  fmt::print("device     {}\n", device_text(device));
  fmt::print("memory     {}\n", byte_text(device_total_bytes(device)));
  fmt::print("threads    {}\n", at::get_num_threads());
  fmt::print("allocator  {}\n\n", allocator_text(device));
  fmt::print("{:<12} {:<6} {:<9} {:>14}\n", "operation", "format", "support", "speed vs. FP32");
  for (const FormatSupport& cell : formats)
    fmt::print("{:<12} {:<6} {:<9} {:>13.2f}x  {}\n", cell.operation, name_of(cell.precision),
               cell.support, cell.speed, cell.why);
}

/// Reads every record of a data set; returns true if there are no defects.
bool check_data(const std::string& name, const std::string& root, bool json) {
  const bool own = is_own_data(name);
  const auto folder = own ? std::filesystem::path(name) : find_data_folder(name, root);
  const std::vector<Finding> findings =
      own ? read_own_data({.name = name, .bad_data = BadData::Report, .decoded_bytes = 0}).findings
          : scan_data_set(name, folder);
  if (json) {
    nlohmann::ordered_json all = {
        {"data", name}, {"folder", folder.string()}, {"findings", nlohmann::ordered_json::array()}};
    for (const Finding& finding : findings)
      all["findings"].push_back({{"file", finding.file},
                                 {"record", finding.record},
                                 {"defect", defect_name(finding.defect)},
                                 {"detail", finding.detail}});
    fmt::print("{}\n", dump_line(all));
  } else {
    for (const Finding& finding : findings) fmt::print("{}\n", printable(finding_text(finding)));
    fmt::print("{} in {}: {}\n", name, printable(folder.string()),
               findings.empty() ? "no defects"
                                : fmt::format("{} {}", findings.size(),
                                              findings.size() == 1 ? "defect" : "defects"));
  }
  return findings.empty();
}

}  // namespace

void add_doctor(CLI::App& program, int& exit_code) {
  struct Arguments {
    std::string device = "auto";
    std::string data, root;
    bool json = false;
  };
  CLI::App* command =
      program.add_subcommand("doctor", "Check what this machine can do, and data sets");
  auto arguments = std::make_shared<Arguments>();
  command->add_option("--device", arguments->device, "auto, cpu or cuda")->capture_default_str();
  command->add_option("--data", arguments->data,
                      "check every record of this data set, folder or file instead");
  command->add_option("--data-root", arguments->root,
                      "folder of the data set, or the folder that contains it");
  command->add_flag("--json", arguments->json, "print JSON");
  command->callback([arguments, &exit_code] {
    if (!arguments->data.empty()) {
      if (!check_data(arguments->data, arguments->root, arguments->json)) exit_code = kData;
      return;
    }
    check_first_product(/*always=*/true);
    const c10::Device device = choose_device(arguments->device);
    const MemoryGauge gauge(device);
    const auto formats = probe_formats(device);
    arguments->json ? print_json(device, formats) : print_text(device, formats);
  });
}

}  // namespace triaccel::cli
