#include "triaccel/trainer/loop/run_parts.h"

#include <torch/torch.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "triaccel/base/byte_size.h"
#include "triaccel/base/divide_up.h"
#include "triaccel/base/error.h"
#include "triaccel/data/epoch_order.h"
#include "triaccel/data/own_data.h"
#include "triaccel/device/cpu_memory.h"
#include "triaccel/device/cuda_memory.h"
#include "triaccel/device/device_choice.h"
#include "triaccel/device/out_of_memory.h"
#include "triaccel/layers/convolution/kernel_choice_measure.h"
#include "triaccel/models/families.h"
#include "triaccel/models/model_zoo.h"
#include "triaccel/ops/tensors/tensor_bundle.h"
#include "triaccel/policies/memory/data_placement.h"
#include "triaccel/policies/zeroth_order/elastic_boundary.h"
#include "triaccel/trainer/evaluate/evaluator.h"
#include "triaccel/trainer/loop/activation_profiler.h"
#include "triaccel/trainer/loop/control_setup.h"
#include "triaccel/trainer/loop/network_state.h"

namespace triaccel {
namespace {

c10::Device prepare_device(const RunConfig& config) {
  const c10::Device device = choose_device(config.device.device);
  set_threads(static_cast<int>(config.device.threads));
  set_arithmetic(config.train.deterministic);
  if (device.is_cuda()) allow_expandable_segments();
  at::manual_seed(static_cast<std::uint64_t>(config.train.seed));
  return device;
}

/// Moves weights to the device and, where asked, into channels-last order. To a GPU they go in one
/// piece and straight to their place: what lies there for a while only leaves a gap.
void place(Network& network, const RunDevice& on, bool channels_last) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> parameters = network.module->parameters();
  if (channels_last)
    for (at::Tensor& parameter : parameters)
      if (parameter.dim() == 4)
        parameter.set_data(parameter.contiguous(at::MemoryFormat::ChannelsLast));
  const bool fit_together = std::ranges::all_of(parameters, [](const at::Tensor& parameter) {
    return parameter.scalar_type() == at::kFloat && parameter.is_non_overlapping_and_dense();
  });
  if (on.device.is_cuda() && fit_together) {
    std::vector<at::Tensor> pieces = in_flat_buffer(parameters, on.device);
    for (std::size_t i = 0; i < parameters.size(); ++i)
      parameters[i].set_data(pieces[i].copy_(parameters[i]));
  }
  network.module->to(on.device);  // buffers, and what is not there yet
  if (on.device.is_cuda()) release_cuda_cache();
}

/// A user's network was made before our allocator counted; its tensors move into counted memory.
void take_into_account(Network& network) {
  const at::NoGradGuard no_grad;
  for (at::Tensor& parameter : network.module->parameters()) parameter.set_data(parameter.clone());
  for (at::Tensor& buffer : network.module->buffers()) buffer.set_data(buffer.clone());
}

StepNetwork step_network(const Network& network) {
  return {.forward = network.forward,
          .parameters = parameters_of(network),
          .buffers = buffers_of(network),
          .layer_count = network.layers.size(),
          .weights = layer_weights(network)};
}

/// Which code computes which layer, as the configuration says. What is measured may differ from
/// run to run, and with it the rounding of results.
KernelChoices choose_kernels(const RunConfig& config, const RunParts& parts) {
  const std::int64_t layers = parts.network.layers.size();
  const std::string& wanted = config.control.kernels;
  const bool measured = wanted == "measured";
  if (wanted != "auto" && wanted != "stock" && wanted != "gemm" && !measured)
    return kernel_choices_from(wanted, layers);
  if (wanted == "stock" || parts.on.device.is_cuda())  // there the library chooses
    return {.layers = std::vector<LayerKernels>(static_cast<std::size_t>(layers))};
  const EvaluationMode mode(*parts.network.module);
  const std::int64_t few = std::min<std::int64_t>(2, parts.data.train->size());
  const Batch batch = gather_unprepared(*parts.data.train, at::arange(few));
  const std::vector<LayerShape> shapes = record_layer_shapes(
      parts.network.forward, layer_weights(parts.network), batch.inputs, config.train.batch);
  return measured ? measure_kernels(shapes, parts.on.device)
                  : fixed_kernels(shapes, parts.on.device);
}

/// The most bytes of samples that are kept on the device; a CPU has no other place.
std::int64_t data_on_device(const RunConfig& config, const RunDevice& on) {
  const DataPlacement wanted = config.data.placement;
  return largest_data_on_device(on.device.is_cpu() ? DataPlacement::Device : wanted,
                                on.budget_bytes);
}

/// A user's data sets as a run uses them; the last `val_split` training samples are held out.
LoadedData own_data(const OwnTask& task, const RunConfig& config, const RunDevice& on) {
  const MemoryPurposeScope purpose(MemoryPurpose::Data);
  const bool same = task.test == task.train;
  std::int64_t bytes = task.train->bytes() + task.train->host_bytes();
  if (!same) bytes += task.test->bytes() + task.test->host_bytes();
  if (on.device.is_cuda()) {
    const DataPlace place(on.device, /*host=*/bytes > data_on_device(config, on));
    task.train->move_to(place);
    if (!same) task.test->move_to(place);
  }
  const std::int64_t held_out = config.data.val_split, size = task.train->size();
  require(held_out < size, "--val-split", "holds out ", held_out, " of ", size, " samples");
  LoadedData data{.train = task.train, .test = task.test};
  for (std::int64_t id = 0; id < size; ++id)
    (id < size - held_out ? data.training_ids : data.validation_ids).push_back(id);
  return data;
}

Precision first_precision(const RunConfig& config, const DeviceFormats& formats) {
  const LayerPrecision wanted = config.control.precision;
  if (wanted == LayerPrecision::Off || wanted == LayerPrecision::Fp32) return Precision::Fp32;
  if (wanted == LayerPrecision::Fp16) return Precision::Fp16;
  return formats.bf16 ? Precision::Bf16 : Precision::Fp16;
}

StepRunnerOptions runner_options(const RunConfig& config, const Method& method) {
  const RunConfig::Train& train = config.train;
  std::optional<ZerothOrderOptions> zeroth_order;
  if (method.zeroth_order) zeroth_order = zeroth_order_options(config);
  std::optional<SavedStoreOptions> saved;
  if (config.activations.keep != "raw") saved = saved_store_options(config);
  return {.optimizer = {.kind = train.optimizer,
                        .state = train.optimizer_state,
                        .momentum = train.momentum,
                        .weight_decay = train.weight_decay,
                        .projection_interval = train.projection_interval,
                        .seed = static_cast<std::uint64_t>(train.seed)},
          .gradients = {.clip_norm = train.clip, .loss_scaling = method.loss_scaling},
          .label_smoothing = train.label_smoothing,
          .weight_average_decay = train.ema,
          .autocast = method.autocast,
          .autocast_type = method.autocast_type,
          .zeroth_order = zeroth_order,
          .saved = saved,
          .frozen_head = config.zeroth_order.freeze,
          .graphs = config.device.graphs != GraphCapture::Off};
}

/// The weights, in memory that no budget counts; put back when the scope ends. Rehearsing rounds
/// those of layers that it trains by zeroth-order estimates.
class KeptWeights {
 public:
  explicit KeptWeights(const Network& network) : weights_(network.module->parameters()) {
    for (const at::Tensor& weight : weights_) {
      std::vector<std::byte>& bytes = bytes_.emplace_back(weight.nbytes());
      as_tensor(bytes, weight).copy_(weight.detach());
    }
  }
  ~KeptWeights() {
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < weights_.size(); ++i)
      weights_[i].copy_(as_tensor(bytes_[i], weights_[i]));
  }
  KeptWeights(const KeptWeights&) = delete;
  KeptWeights& operator=(const KeptWeights&) = delete;

 private:
  static at::Tensor as_tensor(std::vector<std::byte>& bytes, const at::Tensor& like) {
    return torch::from_blob(bytes.data(), like.sizes(), like.scalar_type());
  }

  std::vector<at::Tensor> weights_;
  std::vector<std::vector<std::byte>> bytes_;
};

/// Sets the boundary and the passes of the first plan to what the budget holds, seen by rehearsing
/// steps under it. Leaves weights and generators as they were, but not the runner: it takes the
/// weights for rounded.
void fit_boundary(RunParts& parts, const RunConfig& config) {
  const KeptWeights kept(parts.network);
  const auto seed = static_cast<std::uint64_t>(config.train.seed);
  const Sampler sampler(parts.data.training_ids, seed);
  EpochOrder order(parts.on.device, parts.data.train.get());  // which the run keeps, too
  const at::Tensor ids = order.upcoming(sampler, parts.plan.batch_size);
  // A boundary that moves would leave a plan that fills more.
  const double share = config.zeroth_order.move_boundary ? BoundaryOptions{}.shrink_above : 1;
  const std::int64_t used = parts.on.gauge.read().used;
  const auto room = static_cast<double>(parts.on.budget_bytes - used);
  const ScopedLimit limit(parts.on.gauge, used + static_cast<std::int64_t>(share * room));
  const GatherOptions gather{.augment = augments(config), .seed = seed};
  const auto planned = [&](const BoundaryFit& fit) {
    StepPlan plan = parts.plan;
    plan.micro_batch_size = fit.micro_batch;
    set_boundary(plan, fit.bp_layers);
    return plan;
  };
  const auto fits = [&](const BoundaryFit& fit) {
    parts.on.gauge.release_cache();
    try {
      parts.runner->rehearse(planned(fit), *parts.data.train, ids, gather);
      return true;
    } catch (const OutOfMemory&) {
      return false;
    }
  };
  const auto found = search_boundary(parts.network.layers.size(), parts.plan.micro_batch_size,
                                     smallest_pass_of(parts.network), fits);
  parts.plan = planned(found.value_or(BoundaryFit{0, smallest_pass_of(parts.network)}));
  parts.on.gauge.release_cache();
  parts.on.gauge.reset_peak();
}

}  // namespace

RunDevice::RunDevice(const RunConfig& config)
    : device(prepare_device(config)),
      stream(device),
      budget_bytes(config.device.budget.bytes_on(device_total_bytes(device))),
      gauge(device) {
  gauge.set_limit(budget_bytes);
  gauge.release_cache();  // what was left in this process counts no more
  gauge.reset_peak();
}

RunDevice::~RunDevice() { gauge.set_limit(0); }

DeviceFormats formats_on(c10::Device device) {
  return {.bf16 = missing_hardware(Precision::Bf16, device).empty() || device.is_cpu()};
}

bool wants_channels_last(const RunConfig& config, c10::Device device) {
  if (config.model.memory_format != MemoryLayout::Auto)
    return config.model.memory_format == MemoryLayout::ChannelsLast;
  if (config.train.method == TrainMethod::Triaccel)
    return true;  // products and our own kernels want it
  // Noise is numbered row by row, and weights that lie otherwise take longer to move.
  if (uses_zeroth_order(config)) return false;
#if defined(__x86_64__)
  return device.is_cpu();  // oneDNN's convolutions want it
#else
  (void)device;
  return false;
#endif
}

ZerothOrderOptions zeroth_order_options(const RunConfig& config) {
  const RunConfig::ZerothOrder& zeroth = config.zeroth_order;
  return {.epsilon = zeroth.epsilon,
          .directions = zeroth.directions,
          .one_sided = zeroth.one_sided,
          .sign = zeroth.sign,
          .clip = zeroth.clip,
          .momentum = zeroth.momentum,
          .momentum_steps = zeroth.momentum_steps,
          .clean_pass = zeroth.clean_pass,
          .seed = static_cast<std::uint64_t>(config.train.seed)};
}

namespace {

/// What samples may take of the device, and decoded images of the memory they are kept in.
struct DataLimits {
  std::int64_t on_device = DataOptions::kAnyNumber;
  std::int64_t decoded = DataOptions::kAnyNumber;
};

DataLimits data_limits(const RunConfig& config, const RunDevice& on) {
  DataLimits limits{.on_device = data_on_device(config, on)};
  const Budget& share = config.data.memory;
  if (!is_own_data(config.data.name) || share == Budget()) return limits;
  const std::int64_t budget = on.budget_bytes > 0 ? on.budget_bytes : device_total_bytes(on.device);
  // All of them lie in host memory while they are read.
  limits.decoded = share.bytes_on(device_total_bytes(at::kCPU));
  const bool must_be_on_device =
      on.device.is_cuda() && config.data.placement == DataPlacement::Device;
  if (must_be_on_device || on.device.is_cpu())
    limits.decoded = std::min(limits.decoded, share.bytes_on(budget));
  if (!must_be_on_device) limits.on_device = std::min(limits.on_device, share.bytes_on(budget));
  return limits;
}

}  // namespace

LoadedData load_data_for(const RunConfig& config, const RunDevice& on, bool channels_last) {
  const DataLimits limits = data_limits(config, on);
  return load_data({.name = config.data.name,
                    .root = config.data.root,
                    .train_samples = config.data.train_samples,
                    .validation_samples = config.data.val_split,
                    .image_size = config.data.image_size,
                    .rotation = config.data.rotation,
                    .context_length = config.data.context_length,
                    .channels_last = channels_last,
                    .bad_data = bad_data_rule(config),
                    .device_bytes = limits.on_device,
                    .decoded_bytes = limits.decoded,
                    .seed = static_cast<std::uint64_t>(config.train.seed)},
                   on.device);
}

Network make_network_for(const RunConfig& config, const DataShape& shape, const RunDevice& on,
                         bool channels_last, std::vector<std::string>* notices) {
  const MemoryPurposeScope purpose(MemoryPurpose::Weights);
  ModelOptions options{.name = config.model.name,
                       .stem = config.model.stem,
                       .width = config.model.width,
                       .classes = shape.classes,
                       .context_length = config.data.context_length,
                       .vocabulary = shape.classes};
  // Points have no size and text has no channels; networks for them do not ask.
  if (shape.input_channels > 0) options.input_channels = shape.input_channels;
  if (shape.image_size > 0) options.image_size = shape.image_size;
  Network network = make_model(options);
  if (config.model.init == WeightInit::Kaiming) initialise_without_norms(*network.module);
  place(network, on, channels_last);
  if (!config.model.init_from.empty()) {
    const std::string said = load_weights(network, config.model.init_from, config.model.new_head);
    if (!said.empty() && notices != nullptr) notices->push_back(said);
  }
  return network;
}

RunParts::RunParts(const RunConfig& asked, std::optional<Network> own,
                   std::optional<DeviceFormats> as_if, OwnTask own_task, UnderBudget under_budget)
    : config(asked),
      on(config),
      method(method_on(config.train.method, on.device.type())),
      formats(as_if.value_or(formats_on(on.device))),
      channels_last(wants_channels_last(config, on.device)),
      task(std::move(own_task)) {
  // Between layers gradients travel in BF16, or where that is missing in FP16, whose range needs
  // help there too; a layer's own scale covers only what the layer itself computes.
  if (method.per_layer && !formats.bf16) method.loss_scaling = true;
  const bool plans =
      on.budget_bytes > 0 && !method.zeroth_order && under_budget == UnderBudget::PlanMemory;
  try {
    catching_out_of_memory([&] {
      data = task.train ? own_data(task, config, on) : load_data_for(config, on, channels_last);
      if (own) {
        network = std::move(*own);
        const MemoryPurposeScope purpose(MemoryPurpose::Weights);
        take_into_account(network);
        place(network, on, channels_last);
      } else {
        network = make_network_for(config, data.shape, on, channels_last, &data.notices);
      }
      note_memory();
      if (method.per_layer) {
        kernels = to_text(choose_kernels(config, *this));
        method.layer_precision = first_precision(config, formats);
      }
      set_first_plan();
      if (!plans) make_runner(config);
    });
  } catch (const OutOfMemory& error) {
    const bool limited = on.budget_bytes > 0;
    throw OutOfMemory(text("[train] weights and data do not fit in ",
                           limited ? text("the budget of ", byte_text(on.budget_bytes)) : "memory",
                           ": ", error.what(), "; ", memory_advice(config.train.method, limited)));
  }
  if (plans)
    if (std::string said = fit_memory(*this); !said.empty())
      data.notices.push_back(std::move(said));
  if (on.budget_bytes > 0 && config.train.pass_size > 0) planned_pass = samples_per_pass(plan);
  on.gauge.release_cache();  // what setting up has left behind
  if (method.zeroth_order && method.backprop && config.zeroth_order.bp_layers < 0 &&
      on.budget_bytes > 0) {
    fit_boundary(*this, config);
    make_runner(config);
    on.gauge.release_cache();
    on.gauge.reset_peak();
  }
}

void RunParts::note_memory() {
  on.gauge.note(MemoryPurpose::Data, data.train->bytes() + data.test->bytes());
  on.gauge.note(MemoryPurpose::Weights, 4 * parameter_count(network));
  if (runner) on.gauge.note(MemoryPurpose::Optimizer, runner->optimizer().state_bytes());
}

void RunParts::set_first_plan() {
  const std::int64_t layers = network.layers.size();
  const std::int64_t asked_for = config.zeroth_order.bp_layers;
  const std::int64_t bp_layers = asked_for < 0 ? std::min(layers, kBpLayers) : asked_for;
  // A batch is never larger than an epoch.
  const auto samples = static_cast<std::int64_t>(data.training_ids.size());
  const std::int64_t batch = std::min(config.train.batch, samples);
  const std::int64_t passes =
      std::min(config.train.accumulate, divide_up(samples, std::max<std::int64_t>(1, batch)));
  plan = first_plan(method, batch, passes, layers, bp_layers);
  plan.batch_size = std::min(plan.batch_size, std::max<std::int64_t>(1, samples));
  if (config.train.pass_size > 0)
    plan.micro_batch_size = std::min(plan.micro_batch_size, config.train.pass_size);
}

void RunParts::make_runner(const RunConfig& of) {
  StepRunnerOptions options = runner_options(of, method);
  options.loss = task.loss;
  if (method.per_layer)
    options.layers = {.kernels = kernel_choices_from(kernels, network.layers.size()),
                      .device_has_bf16 = formats.bf16,
                      .copy_weights = of.control.weight_casts == WeightCasts::Step,
                      .recompute_norms = of.activations.recompute_norms,
                      .recompute_segments = of.activations.recompute_segments};
  runner.reset();
  runner = std::make_unique<StepRunner>(step_network(network), options, on.gauge, on.device);
}

}  // namespace triaccel
