#include "triaccel/signals/block_hessian.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "triaccel/base/random.h"

namespace triaccel {
namespace {

using Tensors = std::vector<at::Tensor>;

/// Hessian-vector products with one layer's diagonal block.
class HessianBlock {
 public:
  /// A parameter of the block and its gradient, with its graph.
  void add(const at::Tensor& parameter, const at::Tensor& gradient) {
    parameters_.push_back(parameter);
    gradients_.push_back(gradient);
    elements_ += parameter.numel();
  }

  std::int64_t elements() const { return elements_; }

  /// The block times each row of `vectors` [k, elements].
  at::Tensor times(const at::Tensor& vectors) const {
    at::Tensor products = at::zeros_like(vectors);
    for (std::int64_t i = 0; i < vectors.size(0); ++i) multiply(vectors[i], products[i]);
    return products;
  }

 private:
  void multiply(const at::Tensor& vector, const at::Tensor& product) const {
    Tensors outputs, directions;
    std::int64_t first = 0;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const at::Tensor& gradient = gradients_[i];
      const at::Tensor part = vector.narrow(0, first, gradient.numel());
      first += gradient.numel();
      if (!gradient.requires_grad()) continue;  // a constant
      outputs.push_back(gradient);
      directions.push_back(part.view(gradient.sizes()));
    }
    if (outputs.empty()) return;
    const Tensors parts =
        torch::autograd::grad(outputs, parameters_, directions, /*retain_graph=*/true,
                              /*create_graph=*/false, /*allow_unused=*/true);
    first = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const std::int64_t count = parameters_[i].numel();
      if (parts[i].defined()) product.narrow(0, first, count).copy_(parts[i].reshape({-1}));
      first += count;
    }
  }

  Tensors parameters_;
  Tensors gradients_;
  std::int64_t elements_ = 0;
};

/// Orthonormalizes the rows, in the memory of one copy: from the eigenvectors of their Gram matrix,
/// twice, since a Gram matrix squares the condition number. Rows that others span become 0.
at::Tensor orthonormal(at::Tensor rows) {
  for (int round = 0; round < 2; ++round) {
    const at::Tensor gram = at::mm(rows, rows.t()).cpu().to(at::kDouble);
    if (!gram.isfinite().all().item<bool>()) return rows;
    const auto [values, vectors] = at::linalg_eigh((gram + gram.t()) / 2.0);
    const double least = std::max(1e-12 * values.max().item<double>(), 1e-30);
    const at::Tensor scales = at::where(values > least, values.clamp_min(least).rsqrt(), 0.0);
    const at::Tensor factor = scales.unsqueeze(1) * vectors.t();
    rows = at::mm(factor.to(rows.options()), rows);
  }
  return rows;
}

at::Tensor random_rows(std::int64_t count, std::int64_t elements, std::uint64_t seed,
                       std::uint64_t layer) {
  at::Tensor rows = at::empty({count, elements}, at::kFloat);
  const std::int64_t total = rows.numel();
  float* const values = rows.mutable_data_ptr<float>();
  for (std::int64_t i = 0; i < total; i += 4) {
    const RandomWords random = random_words(seed, static_cast<std::uint64_t>(i), layer);
    for (std::int64_t j = i; j < std::min(i + 4, total); ++j)
      values[j] = unit_float(random.words[j - i]) - 0.5f;
  }
  return rows;
}

/// Rayleigh-Ritz values of a symmetric matrix, the largest magnitude first; `basis` has orthonormal
/// rows, `products` are the matrix times each. Empty if not finite.
std::vector<double> ritz_values(const at::Tensor& basis, const at::Tensor& products) {
  const at::Tensor projected = at::mm(basis, products.t()).cpu().to(at::kDouble);
  if (!projected.isfinite().all().item<bool>()) return {};
  const at::Tensor found = at::linalg_eigvalsh((projected + projected.t()) / 2.0);
  const double* const data = found.const_data_ptr<double>();
  std::vector<double> values(data, data + found.numel());
  std::sort(values.begin(), values.end(),
            [](double a, double b) { return std::abs(a) > std::abs(b); });
  return values;
}

bool converged(const std::vector<double>& now, const std::vector<double>& before,
               double tolerance) {
  if (before.size() != now.size()) return false;
  double change = 0;
  for (std::size_t i = 0; i < now.size(); ++i)
    change = std::max(change, std::abs(now[i] - before[i]));
  return change <= tolerance * std::abs(now.front());
}

/// Subspace iteration from `basis`, which is updated.
LayerCurvature top_eigenvalues(const HessianBlock& block, const CurvatureOptions& options,
                               at::Tensor& basis, std::int64_t& iterations) {
  std::vector<double> values, before;
  for (std::int64_t i = 0; i < options.most_iterations; ++i) {
    at::Tensor products = block.times(basis);
    ++iterations;
    before = std::exchange(values, ritz_values(basis, products));
    basis.reset();
    if (values.empty()) return {};
    basis = orthonormal(std::move(products));
    if (converged(values, before, options.tolerance)) break;
  }
  std::sort(values.rbegin(), values.rend());
  return {.eigenvalues = std::move(values)};
}

/// The trainable parameters of each layer's block.
std::vector<Tensors> parameters_by_layer(const ProbeNetwork& network, bool whole_layer) {
  std::vector<Tensors> blocks(network.weights.size());
  const auto add = [&](std::size_t layer, const at::Tensor& parameter) {
    if (parameter.requires_grad()) blocks.at(layer).push_back(parameter);
  };
  if (whole_layer)
    for (const ParameterRef& parameter : network.parameters)
      add(static_cast<std::size_t>(parameter.layer), parameter.tensor);
  else
    for (std::size_t i = 0; i < blocks.size(); ++i) add(i, network.weights[i]);
  return blocks;
}

std::vector<HessianBlock> blocks_of(const std::vector<Tensors>& parameters,
                                    const at::Tensor& loss) {
  Tensors all;
  for (const Tensors& layer : parameters) all.insert(all.end(), layer.begin(), layer.end());
  std::vector<HessianBlock> blocks(parameters.size());
  if (all.empty() || !loss.requires_grad()) return blocks;
  const Tensors gradients = torch::autograd::grad({loss}, all, {}, /*retain_graph=*/true,
                                                  /*create_graph=*/true, /*allow_unused=*/true);
  auto gradient = gradients.begin();
  for (std::size_t i = 0; i < parameters.size(); ++i)
    for (const at::Tensor& parameter : parameters[i]) {
      if (gradient->defined()) blocks[i].add(parameter, *gradient);
      ++gradient;
    }
  return blocks;
}

}  // namespace

HessianCurvature hessian_curvature(const ProbeNetwork& network, const ProbeBatch& batch,
                                   const CurvatureOptions& options, SubspaceBases& bases) {
  FrozenHooks hooks(/*twice=*/true);
  const std::vector<HessianBlock> blocks = blocks_of(
      parameters_by_layer(network, options.whole_layer), probe_loss(network, batch, hooks));
  const at::NoGradGuard no_grad;
  bases.resize(blocks.size());
  HessianCurvature curvature{.layers = std::vector<LayerCurvature>(blocks.size())};
  for (std::size_t i = blocks.size(); i-- > 0;) {
    const std::int64_t elements = blocks[i].elements();
    if (elements == 0) continue;
    at::Tensor& kept = bases[i];
    const std::int64_t rows = std::min(options.top, elements);
    if (!kept.defined() || kept.size(0) != rows || kept.size(1) != elements)
      kept = random_rows(rows, elements, options.seed, i);
    // Rounding, or restoring from a file, may have degraded orthogonality.
    at::Tensor basis = orthonormal(kept.to(network.weights[i].device()));
    curvature.layers[i] = top_eigenvalues(blocks[i], options, basis, curvature.iterations);
    kept = basis.defined() ? basis.cpu() : basis;
  }
  return curvature;
}

}  // namespace triaccel
