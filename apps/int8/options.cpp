#include "apps/int8/options.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <system_error>

#include "triaccel/base/byte_size.h"
#include "triaccel/base/error.h"
#include "triaccel/base/nearest_name.h"
#include "triaccel/base/utf8.h"
#include "triaccel/int8/training/perturbation.h"
#include "triaccel/int8/training/recipe.h"

namespace triaccel::int8_program {
namespace {

void set_number(const Flag& flag, std::int64_t& value, const std::string& written) {
  const auto [end, error] = std::from_chars(written.data(), written.data() + written.size(), value);
  const bool whole = error == std::errc() && end == written.data() + written.size();
  require(whole && value >= flag.lowest && value <= flag.highest, flag.name,
          "must be a whole number in [", flag.lowest, ", ", flag.highest, "], got '", written, "'");
}

void set_number(const Flag& flag, double& value, const std::string& written) {
  char* end = nullptr;
  value = std::strtod(written.c_str(), &end);
  require(!written.empty() && end == written.c_str() + written.size() && value > 0 && value <= 1e6,
          flag.name, "must lie in (0, 1e6], got '", written, "'");
}

void set_value(const Flag& flag, const std::string& written) {
  if (auto* const* text_value = std::get_if<std::string*>(&flag.value)) {
    **text_value = written;
  } else if (auto* const* whole = std::get_if<std::int64_t*>(&flag.value)) {
    set_number(flag, **whole, written);
  } else if (auto* const* real = std::get_if<double*>(&flag.value)) {
    set_number(flag, **real, written);
  } else {
    require(written == "true" || written == "false", flag.name, "must be true or false, got '",
            written, "'");
    *std::get<bool*>(flag.value) = written == "true";
  }
}

std::string key_of(const Flag& flag) { return std::string(flag.name).substr(2); }

std::string shown_default(const Flag& flag) {
  if (const auto* text_value = std::get_if<std::string*>(&flag.value))
    return (*text_value)->empty() ? "" : text(" (", **text_value, ")");
  if (const auto* whole = std::get_if<std::int64_t*>(&flag.value)) return text(" (", **whole, ")");
  if (const auto* real = std::get_if<double*>(&flag.value)) return text(" (", **real, ")");
  return "";
}

}  // namespace

std::vector<Flag> run_flags(RunOptions& run) {
  return {
      {"--model", "lenet5, or pointnet-plain for point clouds", &run.model},
      {"--data", "mnist, fashion-mnist or modelnet40, not compressed", &run.data},
      {"--data-root", "folder of the data set, or its parent", &run.root},
      {"--epochs", "length of the run", &run.epochs},
      {"--steps", "length of the run in steps, instead of --epochs", &run.steps},
      {"--batch", "samples per step", &run.batch, 1, 65536},
      {"--bp-layers", "last layers that backpropagate; the others train zeroth-order",
       &run.bp_layers},
      {"--budget", "memory of the whole process, such as 4MiB, or none", &run.budget},
      {"--threads", "0: one per core; fewer where the budget demands it", &run.threads, 0,
       int8::kMostWorkers},
      {"--seed", "of initial weights, order and noise", &run.seed},
      {"--width", "channels of the first layer (0: the network's own)", &run.width, 0, 4096},
      {"--init-from", "weights to start from, as 'export' writes them", &run.init_from},
      {"--train-samples", "use only so many training samples (0: all)", &run.train_samples},
      {"--val-split", "training samples to hold out and evaluate on after each epoch",
       &run.val_split},
      {"--checkpoint-every", "steps between checkpoints (0: one per epoch)", &run.checkpoint_every},
      {"--int8-conventions", "sample: an exponent per sample; paper: per tensor", &run.conventions},
      {"--int8-rate", "zeroth-order step size is 2^-N: 4, or 3-6 to change it over the run",
       &run.rate},
      {"--int8-bits", "bits of backpropagated updates: 3, or 4-1 to change them", &run.bits},
      {"--int8-reach", "largest perturbation in units of a weight (-1: recommended)", &run.reach,
       -1, int8::kMostReach},
      {"--int8-zo-layers",
       "first layers to train zeroth-order; the next keep their weights (-1: recommended)",
       &run.zo_layers, -1, int8::kMostLayers},
      {"--int8-logit-gain", "initial logits are multiplied by 2^N (-1: recommended)",
       &run.logit_gain, -1, int8::kMostLogitGain},
      {"--int8-kernel", "auto, scalar or an instruction set (same results)", &run.kernel},
      {"--zo-sign", "use only the sign of the estimated slope", &run.sign},
      {"--clean-pass", "backpropagate from an extra pass with unperturbed weights",
       &run.clean_pass},
      {"--freeze-head", "do not train the zeroth-order layers (for comparison)", &run.freeze},
  };
}

std::vector<Flag> command_flags(CommandOptions& command) {
  return {{"--out", "folder of the run; train requires it", &command.out},
          {"--json", "print one JSON document", &command.json},
          {"--quiet", "show no progress", &command.quiet}};
}

void parse_flags(const std::vector<std::string>& words, const std::vector<Flag>& flags,
                 std::vector<std::string>& without_flag) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--") {  // names that begin with a dash follow
      without_flag.insert(without_flag.end(), words.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                          words.end());
      return;
    }
    if (!words[i].starts_with('-') || words[i].size() == 1) {
      without_flag.push_back(words[i]);
      continue;
    }
    const std::size_t equals = words[i].find('=');
    const std::string name = words[i] == "-o" ? "--out" : words[i].substr(0, equals);
    const auto flag = std::ranges::find_if(flags, [&](const Flag& f) { return f.name == name; });
    if (flag == flags.end()) {
      std::vector<std::string> names;
      for (const Flag& known : flags) names.emplace_back(known.name);
      const std::string near = nearest_name(name, names);
      throw UsageError(text("unknown option '", name, "'",
                            near.empty() ? "; see --help" : text("; did you mean '", near, "'?")));
    }
    if (equals != std::string::npos) {
      set_value(*flag, words[i].substr(equals + 1));
    } else if (bool* const* on = std::get_if<bool*>(&flag->value)) {
      **on = true;
    } else {
      require(i + 1 < words.size(), name, "needs a value; see --help");
      set_value(*flag, words[++i]);
    }
  }
}

std::string help_text(const std::vector<Flag>& flags) {
  std::string all;
  for (const Flag& flag : flags) {
    std::string line = text("  ", flag.name);
    line.resize(std::max<std::size_t>(line.size() + 2, 22), ' ');
    all += text(line, flag.help, shown_default(flag), "\n");
  }
  return all;
}

void check_options(RunOptions run) {
  const Budget readable(run.budget);
  check_int8_schedules(run.rate, run.bits);
  require(run.conventions == "sample" || run.conventions == "paper", "--int8-conventions",
          "must be sample or paper, got '", run.conventions, "'");
  const bool points = run.data == "modelnet40";
  require(points == (run.model == "pointnet-plain"), "--model", "'", run.model,
          "' does not fit --data ", run.data, "; lenet5 takes images, pointnet-plain takes points");
  for (const Flag& flag : run_flags(run))
    if (const auto* written = std::get_if<std::string*>(&flag.value))
      require(is_utf8(**written), flag.name, "must be UTF-8, got '", printable(**written), "'");
}

std::string options_text(RunOptions run) {
  nlohmann::ordered_json all = {{"format", "triaccel-int8 run"}};
  for (const Flag& flag : run_flags(run))
    std::visit([&](const auto* value) { all[key_of(flag)] = *value; }, flag.value);
  return all.dump(1) + "\n";
}

RunOptions parse_options(const std::string& written, const std::filesystem::path& file) {
  const auto all = nlohmann::ordered_json::parse(written, nullptr, /*allow_exceptions=*/false);
  RunOptions run;
  try {
    if (!all.is_object()) throw UsageError("it is not a JSON object");
    for (const Flag& flag : run_flags(run)) {
      const auto found = all.find(key_of(flag));
      if (found == all.end()) continue;
      set_value(flag, found->is_string() ? found->get<std::string>() : found->dump());
    }
    check_options(run);
  } catch (const UsageError& error) {
    throw StorageError(text(file.string(), ": ", error.what(), "; is the file damaged?"));
  }
  return run;
}

}  // namespace triaccel::int8_program
