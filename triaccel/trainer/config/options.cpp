#include "triaccel/trainer/config/options.h"

#include "triaccel/data/load_data.h"
#include "triaccel/data/own_data.h"
#include "triaccel/models/model_zoo.h"

namespace triaccel {
namespace {

bool has_stem(const RunConfig& config) {
  const std::string& name = config.model.name;
  return name.starts_with("resnet") || name.starts_with("densenet") || name.starts_with("vgg");
}

bool uses_sgd(const RunConfig& config) { return config.train.optimizer == OptimizerKind::Sgd; }
bool uses_apollo_mini(const RunConfig& config) {
  return config.train.optimizer == OptimizerKind::ApolloMini;
}
bool is_own(const RunConfig& config) { return is_own_data(config.data.name); }
bool has_weights(const RunConfig& config) { return !config.model.init_from.empty(); }
bool takes_text(const RunConfig& config) { return config.data.name == "text"; }

constexpr Condition kStem = {"a resnet, densenet or vgg --model", has_stem};
constexpr Condition kSgd = {"--optimizer sgd", uses_sgd};
constexpr Condition kApolloMini = {"--optimizer apollo-mini", uses_apollo_mini};
constexpr Condition kOwnData = {"--data PATH, your own images", is_own};
constexpr Condition kInitFrom = {"--init-from", has_weights};
constexpr Condition kText = {"--data text", takes_text};

std::vector<std::string> models() { return model_names(); }

}  // namespace

bool has_control_loop(const RunConfig& config) {
  return config.train.method == TrainMethod::Triaccel;
}
bool estimates_losses(const RunConfig& config) {
  return uses_zeroth_order(config) || trains_in_integers(config);
}
bool has_boundary(const RunConfig& config) {
  return estimates_losses(config) && config.train.method != TrainMethod::Zo;
}
bool follows_paper(const RunConfig& config) {
  return has_control_loop(config) && config.control.policy == PolicySet::Paper;
}
bool follows_robust(const RunConfig& config) {
  return has_control_loop(config) && config.control.policy == PolicySet::Robust;
}
bool trains_in_floats(const RunConfig& config) { return !trains_in_integers(config); }
bool takes_images(const RunConfig& config) {
  return config.data.name != "text" && config.data.name != "modelnet40";
}

void add_train_options(std::vector<Option>& all) {
  using T = RunConfig::Train;
  OptionTable t(
      all, "train", topics::kTraining, [](auto& c) -> auto& { return c.train; });
  t.add("--method", "method", &T::method,
        "triaccel, fp32, amp, zo, elasticzo or elasticzo-int8 (see below)")
      .everyday();
  t.add("--epochs", "epochs", &T::epochs, "passes over the training set").everyday().above(0, 1e6);
  t.add("--steps", "steps", &T::steps, "optimizer steps, instead of --epochs (0: use --epochs)")
      .everyday()
      .between(0, 1e9);
  t.add("--batch", "batch", &T::batch,
        "samples per step, or per part of it with --accumulate (0: 96, or 32 with zo methods)")
      .everyday()
      .alias("--batch-size")
      .between(0, 1 << 24)
      .filled_in();
  t.add("--accumulate", "accumulate", &T::accumulate, "parts of --batch samples per step")
      .between(1, 1 << 20);
  t.add("--pass-size", "pass_size", &T::pass_size,
        "samples per forward pass, to split a batch (0: all of it, or what --budget allows)")
      .at_least(0)
      .strictly_with(kFloats);
  t.add("--optimizer", "optimizer", &T::optimizer, kOptimizerHelp).everyday();
  t.add("--optimizer-state", "optimizer_state", &T::optimizer_state,
        "sgd's and adamw's state: fp32, fp8 in a quarter of the memory, host: fp32 in host memory")
      .strictly_with(kFloats);
  t.add("--lr", "lr", &T::lr,
        "peak learning rate (0: sgd 0.05, with elasticzo 0.01; adamw 0.001; others 0.01)")
      .everyday()
      .alias("--learning-rate")
      .between(0, 1e9)
      .filled_in();
  t.add("--momentum", "momentum", &T::momentum, "momentum of sgd").below(0, 1).only_with(kSgd);
  t.add("--projection-interval", "projection_interval", &T::projection_interval,
        "steps after which apollo-mini draws a new random projection")
      .at_least(1)
      .only_with(kApolloMini);
  t.add("--weight-decay", "weight_decay", &T::weight_decay,
        "weight decay (-1: 0.0005 for sgd, 0.05 for adamw and apollo-mini, 0 for adalomo)")
      .everyday()
      .alias("--wd")
      .between(-1, 1e9)
      .filled_in();
  t.add("--warmup-epochs", "warmup_epochs", &T::warmup_epochs,
        "epochs of linear learning rate warm-up (-1: 5, at most a sixth of the run)")
      .between(-1, 1e9)
      .filled_in();
  t.add("--label-smoothing", "label_smoothing", &T::label_smoothing,
        "share of the target spread over all classes, in [0, 1)")
      .below(0, 1)
      .strictly_with(kFloats);
  t.add("--clip", "clip", &T::clip, "clip the gradient to this norm (0: off)")
      .between(0, 1e9)
      .strictly_with(kFloats);
  t.add("--ema", "ema", &T::ema, "decay per step of a moving average of the weights (0: off)")
      .below(0, 1)
      .strictly_with(kFloats);
  t.add("--patience", "patience", &T::patience,
        "stop after this many evaluations without a lower loss (0: never)")
      .at_least(0);
  t.add("--control-interval", "control_interval", &T::control_interval,
        "steps between two reports of measurements, and between two decisions of triaccel")
      .at_least(1);
  t.add("--seed", "seed", &T::seed, "seed of initial weights, sample order and augmentation")
      .everyday()
      .at_least(0);
  t.add("--deterministic", "deterministic", &T::deterministic,
        "only use kernels that give the same bits in every run");
}

void add_model_options(std::vector<Option>& all) {
  using M = RunConfig::Model;
  OptionTable m(
      all, "model", topics::kData, [](auto& c) -> auto& { return c.model; });
  m.add("--model", "name", &M::name, "network, such as resnet18 or vit-small (all: see below)")
      .everyday()
      .one_of(models);
  m.add("--stem", "stem", &M::stem, "first layers for large (imagenet) or small (cifar) images")
      .everyday()
      .only_with(kStem);
  m.add("--width", "width", &M::width, "channels of the first layer (0: as published)")
      .between(0, 1e6);
  m.add("--init-from", "init_from", &M::init_from,
        "start from the weights in this safetensors file, or from those of a run")
      .everyday();
  m.add("--new-head", "new_head", &M::new_head,
        "with --init-from: start with a new last layer if the number of classes differs")
      .everyday()
      .only_with(kInitFrom);
  m.add("--init", "init", &M::init,
        "initial weights: torch, kaiming (for networks without batch norm) or auto")
      .filled_in();
  m.add("--memory-format", "memory_format", &M::memory_format,
        "layout of images in memory: auto, contiguous or channels-last");
}

void add_data_options(std::vector<Option>& all) {
  using D = RunConfig::Data;
  OptionTable d(
      all, "data", topics::kData, [](auto& c) -> auto& { return c.data; });
  d.add("--data", "name", &D::name,
        "data set (all: see below), folder of images by class, .npz or .safetensors file")
      .everyday();
  d.add("--data-root", "root", &D::root, "folder of the data set, or the folder that contains it")
      .everyday();
  d.add("--train-samples", "train_samples", &D::train_samples,
        "train on only this many samples (0: all)")
      .at_least(0);
  d.add("--val-split", "val_split", &D::val_split,
        "training samples held out for validation during training")
      .at_least(0);
  d.add("--image-size", "image_size", &D::image_size,
        "resize images to this many pixels per side (0: as stored; folders: median, at most 224)")
      .between(0, 1e6)
      .strictly_with(kImages);
  d.add("--rotate", "rotation", &D::rotation,
        "rotate all images counter-clockwise by this many degrees")
      .between(-360, 360)
      .strictly_with(kImages);
  d.add("--context-length", "context_length", &D::context_length, "tokens per sample of text")
      .between(2, 1e6)
      .only_with(kText);
  d.add("--augment", "augment", &D::augment, "randomly crop and flip training images")
      .everyday()
      .only_with(kImages);
  d.add("--bad-data", "bad_data", &D::bad_data,
        "damaged records: fail, skip a few, report and skip, or auto (own data: skip, else fail)");
  d.add("--data-memory", "memory", &D::memory,
        "memory for own images; more are decoded while training (none: no limit)")
      .only_with(kOwnData);
  d.topic(topics::kMemory);
  d.add("--data-placement", "placement", &D::placement,
        "keep samples in device or host memory; auto: host above 1/64 of --budget. GPU only")
      .strictly_with(kFloats);
}

void add_run_options(std::vector<Option>& all) {
  using V = RunConfig::Device;
  OptionTable v(
      all, "device", topics::kRun, [](auto& c) -> auto& { return c.device; });
  v.add("--device", "device", &V::device, "auto (a GPU when there is one), cpu or cuda").everyday();
  v.add("--threads", "threads", &V::threads, "CPU threads (0: libtorch's default)")
      .between(0, 4096);
  v.topic(topics::kMemory);
  v.add("--budget", "budget", &V::budget, "memory the run may use: 300MiB, 2GB, 80% or none")
      .everyday()
      .strictly_with(kFloats);
  v.add("--lossy", "lossy", &V::lossy,
        "may a budget change results (8-bit state, compression, small batch norm): auto, never");
  v.topic(topics::kRun);
  v.add("--graphs", "graphs", &V::graphs, "CUDA graphs of whole training steps: auto or off");

  using R = RunConfig::Run;
  OptionTable r(
      all, "run", topics::kRun, [](auto& c) -> auto& { return c.run; });
  r.add("--out", "out", &R::out, "folder for checkpoints, metrics and report (default: runs/NAME)")
      .everyday()
      .alias("--output")
      .alias("-o");
  r.add("--name", "name", &R::name, "name of the run (default: MODEL-DATA-METHOD)")
      .everyday()
      .filled_in();
  r.add("--checkpoint-every", "checkpoint_every", &R::checkpoint_every,
        "steps between checkpoints (0: one per epoch)")
      .everyday()
      .at_least(0);
  r.add("--keep", "keep", &R::keep, "number of checkpoints to keep").between(1, 1000);
  r.add("--watchdog-seconds", "watchdog_seconds", &R::watchdog_seconds,
        "stop a run that makes no progress for this many seconds (0: never)")
      .between(0, 1e9);
}

const std::vector<Option>& all_options() {
  static const std::vector<Option> options = [] {
    std::vector<Option> all;
    add_train_options(all);
    add_control_options(all);
    add_zeroth_order_options(all);
    add_int8_options(all);
    add_model_options(all);
    add_data_options(all);
    add_activation_options(all);
    add_run_options(all);
    return all;
  }();
  return options;
}

std::vector<std::string_view> option_topics() {
  return {topics::kData,        topics::kTraining, topics::kMemory,    topics::kRun,
          topics::kActivations, topics::kControl,  topics::kPrecision, topics::kCurvature,
          topics::kBatch,       topics::kZeroth,   topics::kInt8};
}

}  // namespace triaccel
