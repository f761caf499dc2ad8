#pragma once

#include "triaccel/trainer/run_config.h"

namespace triaccel {

/// Where a field stands in the file, how its flag is called, and what it is for.
struct ConfigField {
  const char* table;
  const char* key;
  const char* flag;
  const char* help;
};

/// Calls `visit(ConfigField, field&)` for every field: the one list behind flags, configuration
/// files, key=value overrides, --print-config and the saved config.toml.
template <typename Config, typename Visit>
void visit_config(Config& c, Visit&& visit) {
  auto& t = c.train;
  visit(ConfigField{"train", "method", "--method", "fp32 or amp"}, t.method);
  visit(ConfigField{"train", "epochs", "--epochs", "passes over the training set"}, t.epochs);
  visit(ConfigField{"train", "steps", "--steps", "optimizer steps, instead of epochs"}, t.steps);
  visit(ConfigField{"train", "batch", "--batch", "samples per forward pass"}, t.batch);
  visit(ConfigField{"train", "accumulate", "--accumulate", "forward passes per optimizer step"},
        t.accumulate);
  visit(ConfigField{"train", "optimizer", "--optimizer", "sgd or adamw"}, t.optimizer);
  visit(ConfigField{"train", "lr", "--lr", "peak learning rate (0: chosen by the optimizer)"},
        t.lr);
  visit(ConfigField{"train", "momentum", "--momentum", "of sgd"}, t.momentum);
  visit(ConfigField{"train", "weight_decay", "--weight-decay", "(negative: by the optimizer)"},
        t.weight_decay);
  visit(ConfigField{"train", "warmup_epochs", "--warmup-epochs",
                    "linear warm-up (negative: 5, at most a sixth of the run)"},
        t.warmup_epochs);
  visit(ConfigField{"train", "label_smoothing", "--label-smoothing", "in [0, 1)"},
        t.label_smoothing);
  visit(ConfigField{"train", "clip", "--clip", "largest norm of the gradient (0: off)"}, t.clip);
  visit(ConfigField{"train", "ema", "--ema", "decay of the weights' moving average (0: off)"},
        t.ema);
  visit(ConfigField{"train", "patience", "--patience",
                    "stop after this many evaluations without a better loss (0: never)"},
        t.patience);
  visit(ConfigField{"train", "control_interval", "--control-interval",
                    "steps between two looks at the measurements"},
        t.control_interval);
  visit(ConfigField{"train", "seed", "--seed", "of weights, order and augmentation"}, t.seed);
  visit(ConfigField{"train", "deterministic", "--deterministic", "the same bits run after run"},
        t.deterministic);

  auto& m = c.model;
  visit(
      ConfigField{"model", "name", "--model",
                  "lenet5, resnet18, resnet50, efficientnet-b0, pointnet, gpt-small or vit-small"},
      m.name);
  visit(ConfigField{"model", "stem", "--stem", "imagenet or cifar, for resnets"}, m.stem);
  visit(
      ConfigField{"model", "width", "--width", "channels of the first layer (0: the model's own)"},
      m.width);
  visit(ConfigField{"model", "init_from", "--init-from",
                    "start from the weights in this safetensors file"},
        m.init_from);
  visit(
      ConfigField{"model", "memory_format", "--memory-format", "auto, contiguous or channels-last"},
      m.memory_format);

  auto& d = c.data;
  visit(ConfigField{"data", "name", "--data",
                    "synthetic, fashion-mnist, mnist, cifar10, cifar100, modelnet40 or text"},
        d.name);
  visit(ConfigField{"data", "root", "--data-root", "the set's folder, or one that holds it"},
        d.root);
  visit(ConfigField{"data", "train_samples", "--train-samples", "use only this many (0: all)"},
        d.train_samples);
  visit(ConfigField{"data", "val_split", "--val-split", "samples held out of the training set"},
        d.val_split);
  visit(ConfigField{"data", "image_size", "--image-size", "resize to this many pixels a side"},
        d.image_size);
  visit(ConfigField{"data", "context_length", "--context-length", "tokens a sample, for text"},
        d.context_length);
  visit(ConfigField{"data", "augment", "--augment", "random crop and flip of training images"},
        d.augment);
  visit(ConfigField{"data", "bad_data", "--bad-data",
                    "what to do with broken records: fail, skip or report"},
        d.bad_data);

  auto& v = c.device;
  visit(ConfigField{"device", "device", "--device", "auto, cpu or cuda"}, v.device);
  visit(ConfigField{"device", "threads", "--threads", "CPU threads (0: all)"}, v.threads);
  visit(ConfigField{"device", "budget", "--budget",
                    "memory the run may use: 300MiB, 2GB, 80% or none"},
        v.budget);

  auto& r = c.run;
  visit(ConfigField{"run", "out", "--out", "run directory (default: runs/<name>)"}, r.out);
  visit(ConfigField{"run", "name", "--name", "name of the run (default: model-data-method)"},
        r.name);
  visit(ConfigField{"run", "checkpoint_every", "--checkpoint-every", "steps (0: each epoch)"},
        r.checkpoint_every);
  visit(ConfigField{"run", "keep", "--keep", "checkpoints to keep"}, r.keep);
  visit(ConfigField{"run", "watchdog_seconds", "--watchdog-seconds",
                    "end a run that makes no progress for this long (0: never)"},
        r.watchdog_seconds);
}

}  // namespace triaccel
