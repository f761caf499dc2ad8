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
    std::int64_t batch = 96;
    std::int64_t accumulate = 1;
    std::string optimizer = "sgd";
    double lr = 0;  // 0: 0.05 for sgd, 0.001 for adamw
    double momentum = 0.9;
    double weight_decay = -1;   // negative: 5e-4 for sgd, 0.05 for adamw
    double warmup_epochs = -1;  // negative: 5 epochs, at most a sixth of the run
    double label_smoothing = 0;
    double clip = 0;
    double ema = 0;
    std::int64_t patience = 0;
    std::int64_t control_interval = 25;  // steps
    std::int64_t seed = 1;
    bool deterministic = false;
  } train;

  struct Model {
    std::string name = "resnet18";
    std::string stem = "imagenet";
    std::int64_t width = 0;
    std::string init_from = "";
    std::string memory_format = "auto";
  } model;

  struct Data {
    std::string name = "synthetic";
    std::string root = "";
    std::int64_t train_samples = 0;
    std::int64_t val_split = 0;
    std::int64_t image_size = 0;
    std::int64_t context_length = 256;
    bool augment = true;
    std::string bad_data = "fail";
  } data;

  struct Device {
    std::string device = "auto";
    std::int64_t threads = 0;  // 0: libtorch's own choice
    std::string budget = "none";
  } device;

  struct Run {
    std::string out = "";
    std::string name = "";
    std::int64_t checkpoint_every = 0;  // steps; 0: at the end of each epoch
    std::int64_t keep = 3;
    double watchdog_seconds = 600;
  } run;
};

/// Fills in what depends on other fields: learning rate, weight decay, warm-up. Throws UsageError
/// for values and combinations that cannot work, before any data is touched.
RunConfig resolved(RunConfig config);

}  // namespace triaccel
