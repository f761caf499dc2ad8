#include "apps/int8/run.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <numeric>
#include <utility>

#include "triaccel/base/clock.h"
#include "triaccel/base/error.h"
#include "triaccel/base/version.h"
#include "triaccel/formats/hash.h"
#include "triaccel/formats/idx.h"
#include "triaccel/formats/point_cloud.h"
#include "triaccel/int8_run/weights_file.h"
#include "triaccel/telemetry/records/appended_file.h"

namespace triaccel::int8_program {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTrainerFile = "trainer.safetensors";
constexpr std::int64_t kMostOptionBytes = 1 << 20;
constexpr double kSecondsBetweenLines = 5;

/// Of everything that decides the weights.
std::uint64_t hash_of(RunOptions run) {
  const RunOptions defaults;
  run.root = defaults.root;
  run.threads = defaults.threads;
  run.kernel = defaults.kernel;
  run.budget = defaults.budget;
  run.checkpoint_every = defaults.checkpoint_every;
  return xxh3(options_text(run));
}

const StateMap& file_of(const LoadedCheckpoint& checkpoint, const char* name) {
  const auto found = checkpoint.files.find(name);
  if (found == checkpoint.files.end())
    throw StorageError(text("the checkpoint of step ", checkpoint.info.step, " has no ", name));
  return found->second;
}

SampleSplit split_of(const RunOptions& run, const SampleFiles& data) {
  return split_samples(data.train->count(), run.val_split, run.train_samples,
                       static_cast<std::uint64_t>(run.seed));
}

int8::Network network_of(const RunOptions& run, const Int8Shape& shape) {
  return int8_network(run.model, run.width, shape);
}

int8::State first_state(const RunOptions& run, const Int8Shape& shape, bool goes_on) {
  int8::State state =
      int8::initial_state(network_of(run, shape), static_cast<std::uint64_t>(run.seed));
  if (!goes_on && !run.init_from.empty()) load_int8_weights(state, run.init_from);
  return state;
}

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(fs::symlink_status(path, error));
}

/// Whether a process of ours left it there before its run began.
bool is_leftover(const fs::path& path) {
  std::error_code error;
  if (path.filename() == kCheckpointFolder)
    return fs::is_directory(path, error) && fs::is_empty(path, error);
  if (path.filename() != ".lock" || !fs::is_regular_file(fs::symlink_status(path, error)))
    return false;
  const std::string holder = read_text_file(path, kMostOptionBytes);
  return holder.empty() || holder.starts_with("process ");
}

}  // namespace

Run::Run(const RunOptions& options, bool training, RunHooks hooks, bool goes_on)
    : run_(options),
      hooks_(std::move(hooks)),
      training_(training),
      data_(open_sample_files(options.data, options.root)),
      need_(fit_budget(options, data_, network_of(options, data_.shape), training)),
      state_(first_state(options, data_.shape, goes_on)),
      pool_(need_.threads),
      sampler_([&] {
        SampleSplit split = training ? split_of(options, data_) : SampleSplit{.training = {0}};
        validation_ = std::move(split.validation);
        return Sampler(std::move(split.training), static_cast<std::uint64_t>(options.seed));
      }()) {
  const std::int64_t in_epoch = sampler_.samples_per_epoch();
  const Int8Settings settings{.seed = static_cast<std::uint64_t>(run_.seed),
                              .batch = training ? std::min(run_.batch, in_epoch) : 0,
                              .bp_layers = run_.bp_layers,
                              .clean_pass = run_.clean_pass,
                              .freeze = run_.freeze,
                              .sign_only = run_.sign,
                              .paper = run_.conventions == "paper",
                              .rate_exponent = run_.rate,
                              .gradient_bits = run_.bits,
                              .reach = run_.reach,
                              .zo_layers = run_.zo_layers,
                              .logit_gain = run_.logit_gain,
                              .micro_batch = need_.micro_batch,
                              .kernel = run_.kernel,
                              .threads = pool_.threads()};
  options_ = int8_options(settings, state_.network, steps_in_run(run_.extent(), in_epoch));
  if (run_.init_from.empty()) int8::scale_logits(state_, options_.recipe);
  if (training_) slopes_.reserve(static_cast<std::size_t>(options_.total_steps));
}

std::int64_t Run::samples() const {
  return sampler_.epoch() * sampler_.samples_per_epoch() + sampler_.cursor();
}

double Run::epoch() const {
  return static_cast<double>(samples()) / static_cast<double>(sampler_.samples_per_epoch());
}

bool Run::finished() const {
  return static_cast<std::int64_t>(state_.step) >= options_.total_steps;
}

void Run::restore(const LoadedCheckpoint& checkpoint) {
  if (training_) {
    if (checkpoint.info.config_hash != hash_of(run_))
      throw StorageError(text("the checkpoint of step ", checkpoint.info.step,
                              " was made with other options than ", kOptionsFile, " has"));
    const StateMap& trainer = file_of(checkpoint, kTrainerFile);
    const auto slopes = numbers_from<std::uint8_t>(trainer, "slopes", checkpoint.info.step);
    sampler_.restore(trainer);
    slopes_.assign(slopes.begin(), slopes.end());
  }
  restore_int8_state(state_, file_of(checkpoint, kInt8WeightsFile));
}

void Run::save(CheckpointStore& store) {
  const CheckpointInfo info{.step = static_cast<std::int64_t>(state_.step),
                            .config_hash = hash_of(run_),
                            .commit = std::string(build_commit()),
                            .torch_version = "none"};
  CheckpointFile trainer{.name = kTrainerFile, .tensors = sampler_.state()};
  trainer.tensors.push_back(number_state<std::uint8_t>("slopes", {slopes_.begin(), slopes_.end()}));
  const std::array files{
      CheckpointFile{.name = kInt8WeightsFile, .tensors = int8_state_views(state_)},
      std::move(trainer)};
  for (const std::string& notice : store.save(info, files).notices) hooks_.warn(notice);
}

void Run::one_step() {
  std::int64_t left = sampler_.samples_per_epoch() - sampler_.cursor();
  if (run_.steps == 0)  // a run may end inside an epoch
    left = std::min(left, samples_in_run(run_.extent(), sampler_.samples_per_epoch()) - samples());
  const std::int64_t count = std::min(run_.batch, left);
  const int8::StepReport report =
      steps_.train(state_, data_.train->reader, sampler_.upcoming(count), options_.at(state_.step));
  sampler_.take(count);
  slopes_.push_back(static_cast<std::int8_t>(report.slope));
  interval_.samples += count;
  interval_.correct += report.correct;
  interval_.loss += (report.loss[0] + report.loss[1]) / 2;
}

void Run::show_interval(double seconds) {
  const Interval done = std::exchange(interval_, {});
  const auto count = static_cast<double>(std::max<std::int64_t>(1, done.samples));
  hooks_.show(text("epoch ", fixed(epoch(), 2), "  step ", state_.step, "/", options_.total_steps,
                   "  loss ", fixed(int8_nats(done.loss) / count, 4), "  acc ",
                   fixed(100 * static_cast<double>(done.correct) / count, 2), "%  ",
                   fixed(count / seconds, 0), " samples/s"));
}

void Run::end_epoch() {
  const bool validation = !validation_.empty();
  const Score score = evaluate(validation);
  hooks_.show(text("epoch ", fixed(epoch(), 2), "  ", validation ? "validation" : "test",
                   " accuracy ", fixed(score.accuracy, 2), "%  loss ", fixed(score.loss, 4), "  ",
                   fixed(score.seconds, 1), " s"));
}

bool Run::train(const fs::path& directory) {
  CheckpointStore store(directory / kCheckpointFolder);
  Stopwatch line;
  std::int64_t saved = -1;  // the last step that was
  const auto save_step = [&] {
    const auto step = static_cast<std::int64_t>(state_.step);
    if (std::exchange(saved, step) != step) save(store);
  };
  bool stopped = hooks_.stop_requested();
  while (!finished() && !stopped) {
    const std::int64_t epoch_before = sampler_.epoch();
    one_step();
    const bool epoch_ends = sampler_.epoch() != epoch_before;
    const auto step = static_cast<std::int64_t>(state_.step);
    stopped = hooks_.stop_requested();
    if (epoch_ends || line.seconds() >= kSecondsBetweenLines) show_interval(line.restart());
    const std::int64_t every = run_.checkpoint_every;
    if (every > 0 ? step % every == 0 : epoch_ends) save_step();
    // After the last step, the test set follows.
    const bool evaluates = finished() ? !validation_.empty() : epoch_ends;
    if (!evaluates || stopped) continue;
    try {
      end_epoch();
    } catch (const StopRequested&) {
      stopped = true;
    }
    line.restart();
  }
  save_step();
  if (!finished()) return false;
  save_int8_weights(directory / kInt8WeightsFile, state_);
  write_atomically(directory / kSlopesFile,
                   {reinterpret_cast<const char*>(slopes_.data()), slopes_.size()});
  return true;
}

Score Run::evaluate(bool validation) {
  const Stopwatch watch;
  std::vector<std::int64_t> ids = validation ? validation_ : std::vector<std::int64_t>();
  if (!validation) {
    ids.resize(static_cast<std::size_t>(data_.test->count()));
    std::iota(ids.begin(), ids.end(), std::int64_t{0});
  }
  const SampleFile& from = validation ? *data_.train : *data_.test;
  const int8::Evaluation sum =
      steps_.evaluate(state_, from.reader, ids, run_.batch, options_.step, [&] {
        if (hooks_.stop_requested() && !finished()) throw StopRequested();
      });
  const auto count = static_cast<double>(ids.size());
  return {.samples = std::ssize(ids),
          .accuracy = 100 * static_cast<double>(sum.correct) / count,
          .loss = int8_nats(sum.loss) / count,
          .seconds = watch.seconds()};
}

int8::State state_of(const LoadedCheckpoint& checkpoint, const RunOptions& run) {
  const StateMap& weights = file_of(checkpoint, kInt8WeightsFile);
  const auto last = weights.find("fc3.weight");  // of both networks
  if (last == weights.end() || last->second.shape.empty())
    throw StorageError(text("the checkpoint of step ", checkpoint.info.step, " has no 'fc3'"));
  const std::int64_t classes = last->second.shape[0];
  int8::State state = int8::initial_state(
      network_of(run, run.data == "modelnet40"
                          ? Int8Shape{.channels = 3, .points = kPointsPerCloud, .classes = classes}
                          : Int8Shape{.channels = 1, .image_size = kIdxSide, .classes = classes}),
      0);
  restore_int8_state(state, weights);
  return state;
}

std::string fixed(double value, int digits) {
  std::array<char, 64> written = {};
  std::snprintf(written.data(), written.size(), "%.*f", digits, value);
  return written.data();
}

void require_free_folder(const fs::path& directory) {
  require(!is_there(directory / kOptionsFile), "--out", "'", directory.string(),
          "' already contains a run; continue it with 'triaccel-int8 resume ", directory.string(),
          "', or choose another folder");
  for (const char* name :
       {".lock", kCheckpointFolder, kInt8WeightsFile, kSlopesFile, kSummaryFile}) {
    const fs::path path = directory / name;
    require(!is_there(path) || is_leftover(path), "--out", "'", path.string(),
            "' is not part of a run and would be overwritten; choose another folder");
  }
}

RunOptions read_options(const fs::path& directory) {
  const fs::path file = directory / kOptionsFile;
  std::error_code error;
  require(fs::is_regular_file(file, error), "run", "'", directory.string(), "' holds no run (no ",
          kOptionsFile, "); 'triaccel-int8 train' makes one");
  return parse_options(read_text_file(file, kMostOptionBytes), file);
}

std::optional<LoadedCheckpoint> newest_checkpoint(const fs::path& directory,
                                                  const RunHooks& hooks) {
  std::optional<LoadedCheckpoint> newest =
      CheckpointStore(directory / kCheckpointFolder).load_latest();
  if (newest)
    for (const std::string& notice : newest->notices) hooks.warn(notice);
  return newest;
}

}  // namespace triaccel::int8_program
