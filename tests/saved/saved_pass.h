#pragma once

#include <torch/torch.h>

#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/models/slim_models.h"
#include "triaccel/core/saved_statistics.h"
#include "triaccel/policies/compression/codec_rules.h"
#include "triaccel/saved/saved_profile.h"
#include "triaccel/saved/saved_store.h"

namespace triaccel {

using Forward = std::function<at::Tensor()>;

inline std::vector<at::Tensor> constants_of(const torch::nn::Module& module) {
  std::vector<at::Tensor> all = module.parameters();
  for (const at::Tensor& buffer : module.buffers()) all.push_back(buffer);
  return all;
}

inline SavedCensus census_of(const Forward& forward, std::vector<at::Tensor> constants,
                             std::int64_t samples) {
  install_saved_tensor_engine();
  SavedProfile profile(std::move(constants));
  at::Tensor result;
  {
    const SavedTensorScope scope(profile);
    result = forward();
  }
  return profile.census(result, samples);
}

/// Values by one codec, all else without loss.
inline std::vector<SavedPlan> plans_by_tensor(const std::vector<SavedStatistics>& tensors,
                                              const SavedPlan& values) {
  std::vector<SavedPlan> plans = lossless_plans(tensors);
  for (std::size_t i = 0; i < tensors.size(); ++i)
    if (keeps_values(tensors[i].kind)) plans[i] = values;
  return plans;
}

inline std::vector<SavedPlan> planned(const SavedCensus& census, const SavedPlan& values) {
  const std::vector<SavedStatistics> tensors = tensors_of(census);
  return plans_by_entry(census, tensors, plans_by_tensor(tensors, values));
}

/// A store that follows `values` for what `forward` saves.
inline std::unique_ptr<SavedStore> store_for(const Forward& forward,
                                             std::vector<at::Tensor> constants,
                                             const SavedPlan& values, std::int64_t samples = 2) {
  auto store = std::make_unique<SavedStore>(SavedStoreOptions{.seed = 5}, constants, at::kCPU);
  const SavedCensus census = census_of(forward, std::move(constants), samples);
  store->follow(census, planned(census, values));
  return store;
}

/// A forward pass under the store.
inline at::Tensor kept(SavedStore& store, const Forward& forward) {
  store.begin_pass();
  const SavedTensorScope scope(store);
  return forward();
}

inline double cosine(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  double product = 0, square_a = 0, square_b = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    product += a[i].mul(b[i]).sum().item<double>();
    square_a += a[i].square().sum().item<double>();
    square_b += b[i].square().sum().item<double>();
  }
  return product / std::sqrt(square_a * square_b);
}

/// A slim network of the zoo and a small batch; draws the same random numbers in every pass.
struct SlimRun {
  explicit SlimRun(const std::string& name) : SlimRun(slim(name)) {}
  explicit SlimRun(const ModelOptions& model, std::int64_t copies = 1)
      : options(model), network((torch::manual_seed(1), make_model(options))) {
    std::vector<at::Tensor> pairs;
    for (std::int64_t i = 0; i < copies; ++i) pairs.push_back(sample_input(options));
    input = torch::cat(pairs);
    constants = constants_of(*network.module);
  }

  at::Tensor forward() const {
    torch::manual_seed(2);
    return network.forward(input);
  }

  std::vector<at::Tensor> gradients(const at::Tensor& logits) const {
    network.module->zero_grad();
    logits.square().mean().backward();
    std::vector<at::Tensor> all;
    for (const at::Tensor& parameter : network.module->parameters())
      all.push_back(parameter.grad().clone());
    return all;
  }

  ModelOptions options;
  Network network;
  at::Tensor input;
  std::vector<at::Tensor> constants;
};

}  // namespace triaccel
