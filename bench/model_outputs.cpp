// What a network of ours answers, as a file that Python can read.
//   model_outputs OPTIONS.json INPUT.safetensors [WEIGHTS.safetensors] OUT.safetensors
// OPTIONS holds any of name, stem, width, input_channels, classes, image_size; INPUT holds "input".
// With WEIGHTS the whole state is taken from there: each name must be there with its shape. Without
// it the weights are fresh ("initial.<name>") and then moved a little, because a fresh network may
// answer zero to everything. OUT holds, besides, the state used ("state.<name>"), the logits with
// all modules in eval mode ("eval") and with batch norms, but nothing random, in train mode
// ("train"), the gradients of the latter's mean square ("gradient.<name>") and the state after it
// ("after.<name>"), which shows the running statistics. tools/compare_torchvision.py calls it.

#include <torch/torch.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "triaccel/base/error.h"
#include "triaccel/formats/safetensors.h"
#include "triaccel/models/model_zoo.h"

namespace {

using namespace triaccel;

using Tensors = std::map<std::string, at::Tensor>;

Tensors read_tensors(const std::string& path) {
  Tensors tensors;
  for (const StateView& view : read_safetensors(path).tensors) {
    const at::ScalarType type = view.type == ElementType::I64 ? at::kLong : at::kFloat;
    require(type == at::kLong || view.type == ElementType::F32, "model_outputs", path, ": '",
            view.name, "' is ", name_of(view.type), "; only F32 and I64 are read");
    const at::Tensor tensor = torch::empty(view.shape, type);
    if (!view.bytes.empty()) std::memcpy(tensor.data_ptr(), view.bytes.data(), view.bytes.size());
    tensors[view.name] = tensor;
  }
  return tensors;
}

void write_tensors(const std::string& path, const Tensors& tensors) {
  std::vector<StateView> views;
  for (const auto& [name, tensor] : tensors)
    views.push_back(
        {.name = name,
         .type = tensor.scalar_type() == at::kLong ? ElementType::I64 : ElementType::F32,
         .shape = tensor.sizes().vec(),
         .bytes = {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()}});
  write_safetensors(path, views);
}

Tensors state_of(const torch::nn::Module& module) {
  Tensors state;
  for (const auto& parameter : module.named_parameters())
    state[parameter.key()] = parameter.value();
  for (const auto& buffer : module.named_buffers()) state[buffer.key()] = buffer.value();
  return state;
}

void add_copies(Tensors& to, const Tensors& from, const std::string& prefix) {
  for (const auto& [name, tensor] : from)
    to[prefix + name] = tensor.detach().clone(at::MemoryFormat::Contiguous);
}

void load(const torch::nn::Module& module, const Tensors& weights) {
  const torch::NoGradGuard no_gradient;
  const Tensors state = state_of(module);
  for (const auto& [name, tensor] : weights)
    require(state.contains(name), "model_outputs", "the network has no '", name, "'");
  for (const auto& [name, tensor] : state) {
    const auto found = weights.find(name);
    require(found != weights.end(), "model_outputs", "the weights lack '", name, "'");
    require(found->second.sizes() == tensor.sizes(), "model_outputs", "'", name, "' has shape ",
            found->second.sizes(), ", the network's has ", tensor.sizes());
    tensor.copy_(found->second);
  }
}

ModelOptions read_options(const std::string& path) {
  std::ifstream file(path);
  const nlohmann::json json = nlohmann::json::parse(file);
  ModelOptions options;
  options.name = json.value("name", options.name);
  options.stem = json.value("stem", options.stem);
  options.width = json.value("width", options.width);
  options.input_channels = json.value("input_channels", options.input_channels);
  options.classes = json.value("classes", options.classes);
  options.image_size = json.value("image_size", options.image_size);
  return options;
}

void move_a_little(const torch::nn::Module& module) {
  const torch::NoGradGuard no_gradient;
  for (const at::Tensor& parameter : module.parameters())
    parameter.add_(torch::randn_like(parameter), 0.02);
}

void answer(const std::vector<std::string>& paths) {
  torch::manual_seed(1);
  const Network network = make_model(read_options(paths.at(0)));
  torch::nn::Module& module = *network.module;
  const at::Tensor input = read_tensors(paths.at(1)).at("input");
  Tensors answers;
  if (paths.size() == 4) {
    load(module, read_tensors(paths.at(2)));
  } else {
    add_copies(answers, state_of(module), "initial.");
    move_a_little(module);
  }
  add_copies(answers, state_of(module), "state.");
  module.eval();
  add_copies(answers, {{"eval", network.forward(input)}}, "");
  for (const auto& each : module.modules())
    if (each->as<torch::nn::BatchNorm2d>()) each->train();
  const at::Tensor logits = network.forward(input);
  add_copies(answers, {{"train", logits}}, "");
  logits.square().mean().backward();
  for (const auto& parameter : module.named_parameters())
    add_copies(answers, {{parameter.key(), parameter.value().grad()}}, "gradient.");
  add_copies(answers, state_of(module), "after.");
  write_tensors(paths.back(), answers);
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> paths(argv + 1, argv + argc);
  if (paths.size() != 3 && paths.size() != 4) {
    std::fprintf(stderr, "usage: model_outputs OPTIONS.json INPUT [WEIGHTS] OUT\n");
    return 2;
  }
  try {
    answer(paths);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
