#include <fmt/core.h>
#include <torch/version.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands/commands.h"
#include "triaccel/base/version.h"

namespace triaccel::cli {

void add_version(CLI::App& program) {
  CLI::App* command = program.add_subcommand("version", "Show version, commit and libtorch");
  auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "print JSON");
  command->callback([json] {
    if (*json) {
      const nlohmann::ordered_json all = {{"version", version()},
                                          {"commit", build_commit()},
                                          {"torch", TORCH_VERSION},
                                          {"cuda", bool(TRIACCEL_HAS_CUDA)}};
      fmt::print("{}\n", all.dump());
    } else {
      fmt::print("triaccel {} ({}), libtorch {}, {} CUDA\n", version(), build_commit(),
                 TORCH_VERSION, TRIACCEL_HAS_CUDA ? "with" : "without");
    }
  });
}

}  // namespace triaccel::cli
