#pragma once

#include "triaccel/trainer/config/run_config.h"

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
  visit(ConfigField{"train", "method", "--method",
                    "fp32, amp, triaccel, zo, elasticzo or elasticzo-int8"},
        t.method);
  visit(ConfigField{"train", "epochs", "--epochs", "passes over the training set"}, t.epochs);
  visit(ConfigField{"train", "steps", "--steps", "optimizer steps, instead of epochs"}, t.steps);
  visit(ConfigField{"train", "batch", "--batch",
                    "samples per forward pass (0: 96, or 32 for zo and elasticzo)"},
        t.batch);
  visit(ConfigField{"train", "accumulate", "--accumulate", "forward passes per optimizer step"},
        t.accumulate);
  visit(ConfigField{"train", "optimizer", "--optimizer", "sgd or adamw"}, t.optimizer);
  visit(ConfigField{"train", "optimizer_state", "--optimizer-state",
                    "its momentum or moments: fp32, or fp8 in a quarter of the memory"},
        t.optimizer_state);
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

  auto& o = c.control;
  visit(ConfigField{"control", "policy", "--policy",
                    "robust, or paper: its equations (its curvature: --curvature hessian)"},
        o.policy);
  visit(ConfigField{"control", "precision", "--precision",
                    "auto (a layer at a time), off, fp32, bf16 or fp16"},
        o.precision);
  visit(ConfigField{"control", "curvature", "--curvature", "fisher_gram, hessian or off"},
        o.curvature);
  visit(ConfigField{"control", "batch", "--batch-control",
                    "elastic, micro (the optimizer's batch stays) or off"},
        o.batch);
  visit(ConfigField{"control", "replay", "--replay",
                    "follow the plans in this plans.jsonl (a copy is kept)"},
        o.replay);
  visit(ConfigField{"control", "kernels", "--kernels",
                    "code of each layer: auto (measured at the start), stock, gemm or a list"},
        o.kernels);
  visit(ConfigField{"control", "variance_decay", "--variance-decay",
                    "of the moving average of gradient variances, in [0, 1)"},
        o.variance_decay);
  visit(ConfigField{"control", "tau_low", "--tau-low",
                    "paper: FP16 below (0 with --tau-high set: no FP16)"},
        o.tau_low);
  visit(ConfigField{"control", "tau_high", "--tau-high",
                    "paper: FP32 above (0: both from the layers)"},
        o.tau_high);
  visit(ConfigField{"control", "prefer_fp16", "--prefer-fp16",
                    "robust: FP16 instead of BF16 where its range suffices"},
        o.prefer_fp16);
  visit(ConfigField{"control", "dwell", "--dwell", "intervals before a layer goes down a rung"},
        o.dwell);
  visit(ConfigField{"control", "most_changes", "--most-changes", "layers changed an interval"},
        o.most_changes);
  visit(ConfigField{"control", "curvature_every", "--curvature-every", "steps between probes"},
        o.curvature_every);
  visit(ConfigField{"control", "curvature_batch", "--curvature-batch", "samples of a probe"},
        o.curvature_batch);
  visit(ConfigField{"control", "curvature_top", "--curvature-top", "eigenvalues a layer"},
        o.curvature_top);
  visit(ConfigField{"control", "curvature_block", "--curvature-block",
                    "weight, or layer: with its bias and, with hessian, its norm"},
        o.curvature_block);
  visit(ConfigField{"control", "alpha", "--alpha", "paper: rate / (1 + alpha lambda)"}, o.alpha);
  visit(ConfigField{"control", "tau_curvature", "--tau-curvature",
                    "more curvature lifts a layer a rung (0: automatic, negative: off)"},
        o.tau_curvature);
  visit(ConfigField{"control", "curvature_cap", "--curvature-cap",
                    "robust: a layer's rate in steps its curvature bears (0: 1 with hessian, 10)"},
        o.curvature_cap);
  visit(ConfigField{"control", "smallest_rate", "--smallest-rate",
                    "floor of a layer's rate, as a share of the schedule's"},
        o.smallest_rate);
  visit(
      ConfigField{"control", "rho_low", "--rho-low",
                  "grow below: share of the budget less data, weights, optimizer (paper: of all)"},
      o.rho_low);
  visit(ConfigField{"control", "rho_high", "--rho-high", "shrink above: share of the same"},
        o.rho_high);
  visit(ConfigField{"control", "batch_up", "--batch-up", "paper: samples added"}, o.batch_up);
  visit(ConfigField{"control", "batch_down", "--batch-down", "paper: samples taken off"},
        o.batch_down);
  visit(ConfigField{"control", "smallest_batch", "--smallest-batch",
                    "of an elastic batch (0: 8; of a pass in micro mode: 2)"},
        o.smallest_batch);
  visit(ConfigField{"control", "largest_batch", "--largest-batch",
                    "of an elastic batch (0: four times the first)"},
        o.largest_batch);
  visit(ConfigField{"control", "batch_growth", "--batch-growth",
                    "robust: schedule (only as the learning rate falls) or free"},
        o.batch_growth);
  visit(ConfigField{"control", "batch_rate", "--batch-rate",
                    "learning rate for another batch: none, linear, sqrt, adascale or auto"},
        o.batch_rate);
  visit(ConfigField{"control", "noise_share", "--noise-share",
                    "largest batch in gradient noise scales (0: no such limit)"},
        o.noise_share);

  auto& z = c.zeroth_order;
  visit(ConfigField{"zeroth_order", "zo_lr", "--zo-lr",
                    "of layers trained by the loss alone (0: 6e-5, or 2e-5 under elasticzo)"},
        z.lr);
  visit(ConfigField{"zeroth_order", "zo_decay", "--zo-decay", "of --zo-lr, in (0, 1]"}, z.decay);
  visit(ConfigField{"zeroth_order", "zo_decay_epochs", "--zo-decay-epochs", "between two decays"},
        z.decay_epochs);
  visit(ConfigField{"zeroth_order", "zo_epsilon", "--zo-epsilon",
                    "how far weights are moved to look at the loss"},
        z.epsilon);
  visit(ConfigField{"zeroth_order", "zo_directions", "--zo-directions",
                    "random directions a step, at two losses each"},
        z.directions);
  visit(ConfigField{"zeroth_order", "zo_one_sided", "--zo-one-sided",
                    "one loss a direction and one at the weights themselves"},
        z.one_sided);
  visit(ConfigField{"zeroth_order", "zo_sign", "--zo-sign", "follow the sign of the slope alone"},
        z.sign);
  visit(ConfigField{"zeroth_order", "zo_clip", "--zo-clip", "largest slope (0: any)"}, z.clip);
  visit(ConfigField{"zeroth_order", "zo_momentum", "--zo-momentum",
                    "over the last steps, whose directions are redrawn"},
        z.momentum);
  visit(ConfigField{"zeroth_order", "zo_momentum_steps", "--zo-momentum-steps", "how many of them"},
        z.momentum_steps);
  visit(ConfigField{"zeroth_order", "zo_augment", "--zo-augment",
                    "--augment holds under zo and elasticzo too"},
        z.augment);
  visit(ConfigField{"zeroth_order", "clean_pass", "--clean-pass",
                    "elasticzo: backpropagate from one more, undisturbed pass"},
        z.clean_pass);
  visit(ConfigField{"zeroth_order", "bp_layers", "--bp-layers",
                    "elasticzo: last layers by backpropagation (negative: by the budget, else 2)"},
        z.bp_layers);
  visit(ConfigField{"zeroth_order", "move_boundary", "--move-boundary",
                    "elasticzo: more or fewer of them while training, as memory and loss say"},
        z.move_boundary);
  visit(ConfigField{"zeroth_order", "freeze", "--freeze-head",
                    "elasticzo: the layers before the boundary keep their weights (a control)"},
        z.freeze);

  auto& i = c.int8;
  visit(
      ConfigField{"int8", "conventions", "--int8-conventions",
                  "exponents by sample, or paper: by tensor, with its rounding, shifts and signs"},
      i.conventions);
  visit(ConfigField{"int8", "rate_exponent", "--int8-rate",
                    "layers trained by the loss move by slope z / 2^this: 4, or 3-6 over the run"},
        i.rate_exponent);
  visit(ConfigField{"int8", "gradient_bits", "--int8-bits",
                    "backpropagated layers move by so many bits: 3, or 4-1 over the run"},
        i.gradient_bits);
  visit(ConfigField{"int8", "reach", "--int8-reach",
                    "largest noise, in units of a weight (negative: the recipe's)"},
        i.reach);
  visit(ConfigField{"int8", "int8_micro_batch", "--int8-micro-batch",
                    "samples that run together (0: all)"},
        i.micro_batch);
  visit(ConfigField{"int8", "kernel", "--int8-kernel",
                    "auto, scalar, neon, sdot, smmla, avx2, avxvnni or vnni: the same bits"},
        i.kernel);

  auto& m = c.model;
  visit(
      ConfigField{
          "model", "name", "--model",
          "lenet5, resnet18, resnet50, vgg16-bn, densenet121, efficientnet-b0, pointnet[-plain], "
          "gpt-small, vit-small"},
      m.name);
  visit(
      ConfigField{"model", "stem", "--stem", "imagenet or cifar, for resnets, densenets and vggs"},
      m.stem);
  visit(
      ConfigField{"model", "width", "--width", "channels of the first layer (0: the model's own)"},
      m.width);
  visit(ConfigField{"model", "init_from", "--init-from",
                    "start from the weights in this safetensors file"},
        m.init_from);
  visit(ConfigField{"model", "init", "--init",
                    "first weights: torch, kaiming (of networks without norms) or auto"},
        m.init);
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
  visit(ConfigField{"data", "rotation", "--rotate",
                    "turn all images by so many degrees, counter-clockwise"},
        d.rotation);
  visit(ConfigField{"data", "context_length", "--context-length", "tokens a sample, for text"},
        d.context_length);
  visit(ConfigField{"data", "augment", "--augment", "random crop and flip of training images"},
        d.augment);
  visit(ConfigField{"data", "bad_data", "--bad-data",
                    "what to do with broken records: fail, skip or report"},
        d.bad_data);

  auto& a = c.activations;
  visit(ConfigField{"activations", "keep", "--activations",
                    "what backward needs is kept raw, lossless, coded (see --activation-ratio), "
                    "bounded (--activation-error), or by a codec that the program registered"},
        a.keep);
  visit(ConfigField{"activations", "ratio", "--activation-ratio",
                    "coded: bytes an FP32 run saves over bytes held"},
        a.ratio);
  visit(ConfigField{"activations", "least_ratio", "--activation-least-ratio",
                    "coded: how far accuracy may push the ratio down"},
        a.least_ratio);
  visit(ConfigField{"activations", "guard", "--activation-guard",
                    "coded: a drop of accuracy, in points, after which more bytes are held"},
        a.guard);
  visit(ConfigField{"activations", "error_bound", "--activation-error",
                    "bounded: relative variance that codes may add to a weight's gradient"},
        a.error_bound);
  visit(ConfigField{"activations", "adapt", "--activation-adapt",
                    "coded: let loss and accuracy move the ratio"},
        a.adapt);
  visit(ConfigField{"activations", "look_every", "--activation-look-every",
                    "steps between two looks at the values, after which bits are dealt out anew"},
        a.look_every);
  visit(ConfigField{"activations", "prediction", "--activation-prediction",
                    "off, or auto: blocks are kept as what they differ from similar ones, in "
                    "tensors where looks find that it pays"},
        a.prediction);
  visit(ConfigField{"activations", "rounding", "--activation-rounding",
                    "dither, stochastic or nearest"},
        a.rounding);
  visit(ConfigField{"activations", "recompute_norms", "--recompute-norms",
                    "triaccel on a GPU: compute outputs of batch norms again for backward instead "
                    "of keeping them; the same bits"},
        a.recompute_norms);

  auto& v = c.device;
  visit(ConfigField{"device", "device", "--device", "auto, cpu or cuda"}, v.device);
  visit(ConfigField{"device", "threads", "--threads", "CPU threads (0: all)"}, v.threads);
  visit(ConfigField{"device", "budget", "--budget",
                    "memory the run may use: 300MiB, 2GB, 80% or none"},
        v.budget);
  visit(ConfigField{"device", "graphs", "--graphs",
                    "auto: capture and replay whole steps on a GPU; or off"},
        v.graphs);

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
