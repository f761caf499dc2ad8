#pragma once

#include <cstdint>
#include <string>

namespace triaccel {

/// All that decides a run, in the tables and under the keys of its configuration file.
/// trainer/config_fields.h lists every field once, with its flag and its help.
struct RunConfig {
  struct Train {
    std::string method = "fp32";
    double epochs = 10;
    std::int64_t steps = 0;  // > 0: this many optimizer steps instead of `epochs`
    std::int64_t batch = 0;  // 0: 96, or 32 where layers train by the loss alone
    std::int64_t accumulate = 1;
    std::string optimizer = "sgd";
    std::string optimizer_state = "fp32";
    double lr = 0;  // 0: 0.05 for sgd (0.01 under "elasticzo"), 0.001 for adamw
    double momentum = 0.9;
    double weight_decay = -1;   // negative: 5e-4 for sgd, 0.05 for adamw
    double warmup_epochs = -1;  // negative: 5 epochs, at most a sixth of the run; run_schedule.h
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
    std::string policy = "robust";
    std::string precision = "auto";  // or off, fp32, bf16, fp16: the same for every layer
    std::string curvature = "fisher_gram";
    std::string batch = "elastic";
    std::string replay = "";       // plans.jsonl of a run; copied into the run's folder
    std::string kernels = "auto";  // resolved once, then stored: which code computes which layer
    double variance_decay = 0.9;   // beta of the gradient variance's moving average
    double tau_low = 0;            // 0: from the layers' own variances
    double tau_high = 0;           // likewise
    bool prefer_fp16 = false;
    std::int64_t dwell = 4;              // control intervals before a layer goes down a rung
    std::int64_t most_changes = 4;       // of layers in one control interval
    std::int64_t curvature_every = 200;  // steps
    std::int64_t curvature_batch = 32;
    std::int64_t curvature_top = 5;
    std::string curvature_block = "weight";
    double alpha = 0.01;         // of 1 / (1 + alpha lambda), policy "paper"
    double tau_curvature = 0;    // 0: from the layers' own; negative: none is promoted
    double curvature_cap = 0;    // on a layer's rate, policy "robust"; 0: curvature_cap(mode)
    double smallest_rate = 0.1;  // floor of a layer's rate, as a share of the schedule's
    double rho_low = 0.85;
    double rho_high = 0.93;
    std::int64_t batch_up = 16;
    std::int64_t batch_down = 16;
    std::int64_t smallest_batch = 0;        // 0: 8 of a batch, 2 of a pass, or what there is
    std::int64_t largest_batch = 0;         // 0: four times the first
    std::string batch_growth = "schedule";  // or free: whenever there is room
    std::string batch_rate = "auto";
    double noise_share = 1;  // the batch stays below this times the gradient noise scale
  } control;

  /// How methods "zo" and "elasticzo" train layers by the loss alone.
  struct ZerothOrder {
    double lr = 0;            // 0: 6e-5, or 2e-5 beside layers that backpropagate
    double decay = 0.6;       // of it …
    double decay_epochs = 4;  // … every so many epochs
    double epsilon = 5e-3;
    std::int64_t directions = 1;
    bool one_sided = false;
    bool sign = false;
    double clip = 0;
    double momentum = 0;
    std::int64_t momentum_steps = 8;
    bool clean_pass = false;
    bool augment = false;         // these methods fit too little, not too well
    std::int64_t bp_layers = -1;  // negative: as many as the budget allows, or 2 without one
    bool move_boundary = false;
    bool freeze = false;  // the layers before the boundary keep their weights
  } zeroth_order;

  /// How method "elasticzo-int8" trains; "": the recipe's. A pair "first-last" is gone through in
  /// equal parts of the run.
  struct Int8 {
    std::string conventions = "sample";  // or paper: exponents a tensor, its rounding and shifts
    std::string rate_exponent = "";      // the others move by z / 2^this
    std::string gradient_bits = "";      // backpropagated layers move by so many bits
    std::int64_t reach = -1;             // of the noise, in units of a weight; negative: recipe's
    std::int64_t micro_batch = 32;       // samples that run together; 0: all
    std::string kernel = "auto";
  } int8;

  /// How the tensors that autograd saves for backward are kept.
  struct Activations {
    std::string keep = "raw";   // lossless, coded, bounded; or a registered codec
    double ratio = 10.2;        // coded: bytes an FP32 run saves over bytes held
    double least_ratio = 4;     // how far accuracy may push it down
    double guard = 0.5;         // points of accuracy a drop of which does so
    double error_bound = 0.01;  // bounded: relative variance that codes may add to a gradient
    bool adapt = true;
    std::int64_t look_every = 500;   // steps between two looks at the tensors' values
    std::string prediction = "off";  // auto: of blocks from similar ones, where it pays
    std::string rounding = "dither";
    bool recompute_norms = false;  // outputs of batch norms, for backward, instead of keeping them
  } activations;

  struct Model {
    std::string name = "resnet18";
    std::string stem = "imagenet";
    std::int64_t width = 0;
    std::string init_from = "";
    std::string init = "auto";  // torch, kaiming, or auto: kaiming where layers train by the loss
    std::string memory_format = "auto";
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
    std::string bad_data = "fail";
  } data;

  struct Device {
    std::string device = "auto";
    std::int64_t threads = 0;  // 0: libtorch's own choice
    std::string budget = "none";
    std::string graphs = "auto";  // or off
  } device;

  struct Run {
    std::string out = "";
    std::string name = "";
    std::int64_t checkpoint_every = 0;  // steps; 0: at the end of each epoch
    std::int64_t keep = 3;
    double watchdog_seconds = 600;
  } run;
};

/// Whether its method trains layers by the loss alone, in FP32.
bool trains_by_losses(const RunConfig& config);

/// Whether training images are cropped and flipped at random.
bool augments(const RunConfig& config);

/// Whether its method trains in integers alone.
bool trains_in_integers(const RunConfig& config);

/// Fills in what depends on other fields: learning rate, weight decay, warm-up. Throws UsageError
/// for values and combinations that cannot work, before any data is touched.
RunConfig resolved(RunConfig config);

/// The same run by another method, for a comparison: where that method has no control loop, every
/// mechanism of it is switched off.
RunConfig with_method(RunConfig config, const std::string& method);

}  // namespace triaccel
