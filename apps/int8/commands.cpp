#include "apps/int8/commands.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "apps/int8/options.h"
#include "apps/int8/run.h"
#include "cli/exit_codes.h"
#include "cli/output.h"
#include "cli/stop_signals.h"
#include "triaccel/base/byte_size.h"
#include "triaccel/base/clock.h"
#include "triaccel/base/error.h"
#include "triaccel/base/utf8.h"
#include "triaccel/base/version.h"
#include "triaccel/checkpoint/run_lock.h"
#include "triaccel/int8_run/weights_file.h"
#include "triaccel/telemetry/records/appended_file.h"

namespace triaccel::int8_program {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

/// Flags that change where and how a trained run computes, not what.
const Words kPlaces = {"--data", "--data-root", "--threads", "--budget", "--int8-kernel"};

/// The most memory this process has had resident; 0 where the system does not say.
std::int64_t peak_bytes() {
  std::ifstream status("/proc/self/status");
  std::string word;
  for (std::int64_t kilobytes = 0; status >> word;)
    if (word == "VmHWM:" && status >> kilobytes) return kilobytes * 1024;
  return 0;
}

void say_warning(const std::string& message) {
  cli::say(text("triaccel-int8: warning: ", printable(message, " "), "\n"));
}

RunHooks hooks_for(const CommandOptions& command) {
  RunHooks hooks{.stop_requested = [] { return cli::stop_signal() != 0; }, .warn = say_warning};
  if (!command.quiet)
    hooks.show = [](const std::string& line) { cli::say(printable(line) + "\n"); };
  return hooks;
}

std::vector<Flag> only(std::vector<Flag> flags, const Words& names) {
  std::erase_if(flags, [&](const Flag& flag) { return std::ranges::count(names, flag.name) == 0; });
  return flags;
}

std::vector<Flag> joined(std::vector<Flag> flags, const std::vector<Flag>& more) {
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

/// The options of a run that the words name, with what the flags among them change.
struct Named {
  fs::path directory;
  RunOptions options;
};

Named named_run(const Words& words, CommandOptions& command, Words places, const char* who) {
  RunOptions given;
  parse_flags(
      words,
      joined(only(run_flags(given), places), only(command_flags(command), {"--json", "--quiet"})),
      command.words);
  require(!command.words.empty(), who, "name the folder of a run");
  Named named{.directory = command.words[0], .options = read_options(command.words[0])};
  Words ignored;
  CommandOptions again;
  parse_flags(words, joined(only(run_flags(named.options), places), command_flags(again)), ignored);
  check_options(named.options);
  return named;
}

void require_no_more_words(const CommandOptions& command, std::size_t most, const char* who) {
  require(command.words.size() <= most, who, "unexpected word '",
          command.words.size() > most ? command.words[most] : "", "'; see --help");
}

/// How long a run has trained: in this process, and in those before it.
struct RunTime {
  const Stopwatch& watch;
  double seconds_before = 0;

  double seconds() const { return seconds_before + watch.seconds(); }
};

/// What the last session of a run left, if it ended by itself.
Json summary_in(const fs::path& directory) {
  constexpr std::int64_t most_bytes = 1 << 20;
  std::error_code error;
  if (!fs::exists(directory / kSummaryFile, error)) return Json::object();
  const std::string summary = read_text_file(directory / kSummaryFile, most_bytes);
  try {
    return Json::parse(summary);
  } catch (const Json::exception& broken) {
    throw StorageError(
        text((directory / kSummaryFile).string(), ": ", broken.what(), "; delete it to go on"));
  }
}

bool is_finished(const Json& summary) { return summary.value("status", "") == "finished"; }

void show_summary(const Json& summary, const fs::path& directory, const CommandOptions& command) {
  if (command.json) return print_json(summary);
  const bool finished = is_finished(summary);
  const std::string run = printable(directory.string());
  const auto number = [&](const char* key) { return summary.at(key).get<double>(); };
  print(text(finished ? "finished" : "stopped", " in ", fixed(number("seconds"), 1), " s: ",
             finished ? text("accuracy ", fixed(number("accuracy"), 2), "%  loss ",
                             fixed(number("loss"), 4), "  ")
                      : "",
             summary.at("steps").get<std::int64_t>(), " steps  peak ",
             byte_text(summary.at("peak_bytes").get<std::int64_t>()), "\n  run     ", run,
             finished ? text("\n  weights ", run, "/", kInt8WeightsFile, "\n")
                      : text("\n  resume  triaccel-int8 resume ", run, "\n")));
}

int train_in(const fs::path& directory, Run& run, const RunOptions& options,
             const CommandOptions& command, const RunHooks& hooks, const RunTime& time) {
  hooks.show(text(options.model, " on ", options.data, ", ", run.need().threads,
                  run.need().threads == 1 ? " thread, " : " threads, ",
                  run.state().step > 0 ? text("resumed after step ", run.state().step, ", ") : "",
                  run.total_steps(), " steps"));
  hooks.show("needs " + need_text(run.need()));
  const bool finished = run.train(directory);
  std::int64_t parameters = 0;
  for (const int8::Layer& layer : run.state().network.layers) parameters += layer.weight_count();
  Json summary = {{"status", finished ? "finished" : "stopped"},
                  {"model", options.model},
                  {"data", options.data},
                  {"seed", options.seed},
                  {"parameters", parameters},
                  {"steps", run.state().step}};
  Score score;
  if (finished) {
    score = run.evaluate(/*validation=*/false);
    summary["accuracy"] = score.accuracy;
    summary["loss"] = score.loss;
  }
  summary["seconds"] = time.seconds();
  summary["threads"] = run.need().threads;
  summary["predicted_bytes"] = run.need().total();
  summary["peak_bytes"] = peak_bytes();
  summary["commit"] = build_commit();
  summary["run"] = directory.string();
  const auto replace = Json::error_handler_t::replace;
  write_atomically(directory / kSummaryFile, summary.dump(1, ' ', true, replace) + "\n");
  show_summary(summary, directory, command);
  return finished ? cli::kOk : 128 + cli::stop_signal();
}

}  // namespace

void print(const std::string& line) { std::fputs(line.c_str(), stdout); }

void print_json(const Json& json) {
  print(json.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace) + "\n");
}

int train_command(const Words& words) {
  RunOptions options;
  CommandOptions command;
  parse_flags(words, joined(run_flags(options), command_flags(command)), command.words);
  require_no_more_words(command, 0, "train");
  for (std::string* path : {&options.root, &options.init_from})  // resume may start elsewhere
    if (!path->empty()) *path = fs::absolute(*path).lexically_normal().string();
  check_options(options);
  require(!command.out.empty(), "--out", "name a folder for the run, such as --out runs/first");
  cli::watch_stop_signals();
  const RunHooks hooks = hooks_for(command);
  const Stopwatch watch;
  require_free_folder(command.out);
  Run run(options, /*training=*/true, hooks);
  const RunLock lock(command.out);
  require_free_folder(command.out);
  write_atomically(fs::path(command.out) / kOptionsFile, options_text(options));
  return train_in(command.out, run, options, command, hooks, {.watch = watch});
}

int resume_command(const Words& words) {
  CommandOptions command;
  Words places = kPlaces;
  std::erase(places, "--data");
  const Named named = named_run(words, command, places, "resume");
  require_no_more_words(command, 1, "resume");
  cli::watch_stop_signals();
  const RunHooks hooks = hooks_for(command);
  const Stopwatch watch;
  const RunLock lock(named.directory);
  const auto newest = newest_checkpoint(named.directory, hooks);
  const Json before = summary_in(named.directory);
  if (is_finished(before) && newest && newest->info.step == before.at("steps")) {
    show_summary(before, named.directory, command);
    return cli::kOk;
  }
  Run run(named.options, /*training=*/true, hooks, /*goes_on=*/newest.has_value());
  if (newest) run.restore(*newest);
  return train_in(named.directory, run, named.options, command, hooks,
                  {.watch = watch, .seconds_before = before.value("seconds", 0.0)});
}

int eval_command(const Words& words) {
  CommandOptions command;
  RunOptions options;
  const std::vector<Flag> shown = only(command_flags(command), {"--json", "--quiet"});
  parse_flags(words, joined(run_flags(options), shown), command.words);
  const bool of_run = !command.words.empty();
  require_no_more_words(command, 1, "eval");
  require(of_run || !options.init_from.empty(), "eval", "name a run, or weights with --init-from");
  fs::path directory;
  if (of_run) {
    command.words.clear();
    const Named named = named_run(words, command, kPlaces, "eval");
    directory = named.directory;
    options = named.options;
    options.init_from.clear();  // the checkpoint has all weights
  }
  check_options(options);
  RunHooks hooks{.warn = say_warning};
  Run run(options, /*training=*/false, hooks);
  if (of_run) {
    const auto newest = newest_checkpoint(directory, hooks);
    require(newest.has_value(), "eval", "the run '", directory.string(), "' has no checkpoint yet");
    run.restore(*newest);
  }
  const Score score = run.evaluate(/*validation=*/false);
  if (command.json)
    print_json({{"run", directory.string()},
                {"step", run.state().step},
                {"samples", score.samples},
                {"accuracy", score.accuracy},
                {"loss", score.loss},
                {"seconds", score.seconds},
                {"predicted_bytes", run.need().total()},
                {"peak_bytes", peak_bytes()}});
  else
    print(text("step ", run.state().step, ": accuracy ", fixed(score.accuracy, 2), " %, loss ",
               fixed(score.loss, 4), " on ", score.samples, " samples in ", fixed(score.seconds, 1),
               " s\n"));
  return cli::kOk;
}

int export_command(const Words& words) {
  CommandOptions command;
  const Named named = named_run(words, command, {}, "export");
  require_no_more_words(command, 2, "export");
  require(command.words.size() == 2, "export", "name the file to write after the run");
  const fs::path file = command.words[1];
  std::error_code error;
  require(!fs::exists(fs::symlink_status(file, error)), "export", "'", file.string(),
          "' exists and is not overwritten; choose another name");
  const RunHooks hooks{.warn = say_warning};
  const auto newest = newest_checkpoint(named.directory, hooks);
  require(newest.has_value(), "export", "the run '", named.directory.string(),
          "' has no checkpoint yet");
  int8::State state = state_of(*newest, named.options);
  save_int8_weights(file, state);
  if (command.json)
    print_json({{"run", named.directory.string()}, {"step", state.step}, {"file", file.string()}});
  else
    print(text("weights of step ", state.step, " written to ", printable(file.string()), "\n"));
  return cli::kOk;
}

}  // namespace triaccel::int8_program
