#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "triaccel/base/byte_size.h"
#include "triaccel/core/sampler.h"
#include "triaccel/policies/learning_rate_schedule.h"
#include "triaccel/trainer/config/choices.h"

namespace triaccel {

/// Everything that defines a run, in the tables of its configuration file. options.h declares every
/// field once: flag, key, range, help.
struct RunConfig {
  struct Train {
    Choice<TrainMethod> method = TrainMethod::Triaccel;
    double epochs = 10;
    std::int64_t steps = 0;  // > 0: this many optimizer steps instead of `epochs`
    std::int64_t batch = 0;  // 0: 96, or 32 with zeroth-order estimates
    std::int64_t accumulate = 1;
    std::int64_t pass_size = 0;  // samples of a forward pass; 0: all of `batch`
    Choice<OptimizerKind> optimizer = OptimizerKind::Sgd;
    Choice<StateFormat> optimizer_state = StateFormat::Fp32;
    double lr = 0;  // 0: 0.05 for sgd (0.01 under "elasticzo"), 0.001 for adamw, 0.01 for others
    double momentum = 0.9;
    std::int64_t projection_interval = 200;  // steps
    double weight_decay = -1;   // negative: 5e-4 for sgd, 0 for adalomo, 0.05 for others
    double warmup_epochs = -1;  // negative: 5 epochs, at most a sixth of the run
    double label_smoothing = 0;
    double clip = 0;
    double ema = 0;
    std::int64_t patience = 0;
    std::int64_t control_interval = 25;  // steps
    std::int64_t seed = 1;
    bool deterministic = false;
  } train;

  /// What method "triaccel" decides while it trains, and by which rules.
  struct Control {
    Choice<PolicySet> policy = PolicySet::Robust;
    Choice<LayerPrecision> precision = LayerPrecision::Auto;  // or the same for every layer
    Choice<WeightCasts> weight_casts = WeightCasts::Step;     // on a GPU
    Choice<CurvatureSource> curvature = CurvatureSource::FisherGram;
    Choice<BatchMode> batch = BatchMode::Elastic;
    std::string replay = "";       // plans.jsonl of a run; copied into the run's folder
    std::string kernels = "auto";  // resolved once, then stored: which code computes which layer
    std::int64_t curvature_every = 200;  // steps
    std::int64_t curvature_batch = 32;
    std::int64_t curvature_top = 5;
    Choice<CurvatureBlock> curvature_block = CurvatureBlock::Weight;
    Choice<BatchGrowth> batch_growth = BatchGrowth::Schedule;
    Choice<BatchRate> batch_rate = BatchRate::Auto;
    // The policies' own options; what depends on device and mode is filled in when a run starts.
    PrecisionOptions precision_rules = {};  // tau_high 0: from the layers' own variances
    // rate_floor 0: default_rate_floor(policy); cap 0: curvature_cap(mode); tau < 0: none
    CurvatureRules curvature_rules = {.rate_floor = 0, .cap = 0};
    BatchOptions batch_rules = {.smallest = 0};  // smallest 0: 8 per batch, 2 per pass
  } control;

  /// How methods "zo" and "elasticzo" train layers by zeroth-order estimates.
  struct ZerothOrder {
    double lr = 0;            // 0: 6e-5, or 2e-5 next to layers that backpropagate
    double decay = 0.6;       // factor on lr …
    double decay_epochs = 4;  // … every this many epochs
    double epsilon = 5e-3;
    std::int64_t directions = 1;
    bool one_sided = false;
    bool sign = false;
    double clip = 0;
    double momentum = 0;
    std::int64_t momentum_steps = 8;
    bool clean_pass = false;
    bool augment = false;         // these methods underfit
    std::int64_t bp_layers = -1;  // negative: as many as the budget allows, or 2 without one
    bool move_boundary = false;
    bool freeze = false;  // the layers before the boundary keep their weights
  } zeroth_order;

  /// How method "elasticzo-int8" trains; "": the recipe's. A pair "first-last" uses each value for
  /// an equal part of the run.
  struct Int8 {
    Choice<Int8Conventions> conventions = Int8Conventions::Sample;
    std::string rate_exponent = "";  // zeroth-order layers move by z / 2^this
    std::string gradient_bits = "";  // bits of the updates of backpropagated layers
    std::int64_t reach = -1;         // of the noise, in units of a weight; negative: recipe's
    std::int64_t zo_layers = -1;     // first layers that train zeroth-order; negative: recipe's
    std::int64_t logit_gain = -1;    // log2 of the factor on initial logits; negative: recipe's
    std::int64_t micro_batch = 32;   // samples that run together; 0: all
    std::string kernel = "auto";
  } int8;

  /// How the tensors that autograd saves for backward are kept.
  struct Activations {
    ActivationMode keep = "raw";
    static constexpr double kFirstRatio = 10.2, kAutoRatio = 0;
    double ratio = kFirstRatio;  // compressed: bytes in FP32 over bytes stored
    double first_ratio() const { return ratio == kAutoRatio ? kFirstRatio : ratio; }
    double least_ratio = 4;     // lowest ratio that a loss of accuracy may lead to
    double guard = 0.5;         // drop of accuracy, in points, that lowers the ratio
    double error_bound = 0.01;  // bounded: relative variance that encoding may add to a gradient
    bool adapt = true;
    std::int64_t profile_every = 500;  // steps, at most
    Choice<ActivationRounding> rounding = ActivationRounding::Dither;
    double offload_share = 1;       // offloaded: of the bytes, from the first saved on
    bool recompute_norms = false;   // outputs of batch norms, for backward, instead of keeping them
    double recompute_segments = 0;  // of the activations, as RecomputedSegments
  } activations;

  struct Model {
    std::string name = "resnet18";
    Choice<Stem> stem = Stem::ImageNet;
    std::int64_t width = 0;
    std::string init_from = "";
    bool new_head = false;
    Choice<WeightInit> init = WeightInit::Auto;  // auto: kaiming under zeroth-order methods
    Choice<MemoryLayout> memory_format = MemoryLayout::Auto;
  } model;

  struct Data {
    std::string name = "synthetic";
    std::string root = "";
    std::int64_t train_samples = 0;
    std::int64_t val_split = 0;
    std::int64_t image_size = 0;
    double rotation = 0;  // degrees, of training and test images
    std::int64_t context_length = 256;
    bool augment = true;
    Choice<BadDataMode> bad_data = BadDataMode::Auto;
    Budget memory = "25%";  // of the budget or device, for decoded images of own data
    Choice<DataPlacement> placement = DataPlacement::Auto;
  } data;

  struct Device {
    Choice<DeviceName> device = DeviceName::Auto;
    std::int64_t threads = 0;  // 0: libtorch's own choice
    Budget budget = {};
    Choice<GraphCapture> graphs = GraphCapture::Auto;
    Choice<LossyMeans> lossy = LossyMeans::Auto;  // to keep a budget
  } device;

  struct Run {
    std::string out = "";
    std::string name = "";
    std::int64_t checkpoint_every = 0;  // steps; 0: at the end of each epoch
    std::int64_t keep = 3;
    double watchdog_seconds = 600;
    // Not an option: hashes of the configurations of a run before it was extended, which its older
    // checkpoints carry.
    std::vector<std::uint64_t> earlier_hashes = {};
  } run;
};

/// Whether its method trains layers by zeroth-order estimates, in FP32.
bool uses_zeroth_order(const RunConfig& config);

/// Whether training images are cropped and flipped at random.
bool augments(const RunConfig& config);

/// What happens to damaged records: own data drops up to a hundredth unless told otherwise.
BadDataRule bad_data_rule(const RunConfig& config);

/// Whether its method trains in integers only.
bool trains_in_integers(const RunConfig& config);

/// Fills in what depends on other fields: learning rate, weight decay, warm-up. Throws UsageError
/// for values and combinations that cannot work, before any data is touched.
RunConfig resolved(RunConfig config);

/// Undoes what resolved() filled in: such options follow from others again, which may then change.
RunConfig with_open_options(RunConfig config);

/// The same run by another method, for a comparison: where that method has no control loop, every
/// mechanism of it is switched off.
RunConfig with_method(RunConfig config, Choice<TrainMethod> method);

RunExtent extent_of(const RunConfig& config);

/// Length and learning-rate schedule of a run. Where the run is counted in steps, its samples
/// are those of as many steps of the first plan. The
/// default warm-up is five epochs, at most a sixth of the run.
LearningRateSchedule schedule_of(const RunConfig& config, std::int64_t samples_per_epoch);

/// The learning rate of zeroth-order layers at an epoch.
double zeroth_order_rate_at(const RunConfig& config, double epoch);

}  // namespace triaccel
