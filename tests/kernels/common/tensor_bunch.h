#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "triaccel/kernels/common/tensor_list.h"
#include "triaccel/kernels/update/step_control.h"

namespace triaccel::kernels {

/// Tensors of the given sizes with random contents, spread over three layers.
struct TensorBunch {
  std::vector<at::Tensor> parameters, gradients, states1, states2;

  explicit TensorBunch(const std::vector<std::int64_t>& sizes) {
    for (const std::int64_t size : sizes) {
      parameters.push_back(at::randn({size}));
      gradients.push_back(at::randn({size}));
      states1.push_back(at::randn({size}));
      states2.push_back(at::rand({size}));  // a second moment is never negative
    }
  }

  TensorBunch on(at::Device device) const {
    TensorBunch copy({});
    const auto move = [&](const std::vector<at::Tensor>& from, std::vector<at::Tensor>& to) {
      for (const at::Tensor& tensor : from)
        to.push_back(tensor.to(device, tensor.scalar_type(), false, true));
    };
    move(parameters, copy.parameters);
    move(gradients, copy.gradients);
    move(states1, copy.states1);
    move(states2, copy.states2);
    return copy;
  }

  std::vector<TensorEntry> entries() const {
    std::vector<TensorEntry> list;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const at::ScalarType type = gradients[i].scalar_type();
      list.push_back({.parameter = parameters[i].data_ptr<float>(),
                      .gradient = gradients[i].data_ptr(),
                      .state1 = states1[i].data_ptr<float>(),
                      .state2 = states2[i].data_ptr<float>(),
                      .count = parameters[i].numel(),
                      .layer = static_cast<std::int32_t>(i % 3),
                      .gradient_type = type == at::kHalf       ? FloatType::F16
                                       : type == at::kBFloat16 ? FloatType::Bf16
                                                               : FloatType::F32});
    }
    return list;
  }
};

/// Nothing, one element, a prime, a chunk and its neighbours, and more tensors than three launches
/// take.
inline std::vector<std::int64_t> awkward_sizes() {
  std::vector<std::int64_t> sizes = {
      0, 1, 2, 7919, kChunk - 1, kChunk, kChunk + 1, 3 * kChunk + 17, 0, 100 * 1000, 2 * kChunk};
  for (std::int64_t i = 0; i < 3 * TensorList::kCapacity; ++i) sizes.push_back(i % 37);
  return sizes;
}

inline bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor x = a.cpu().contiguous();
  const at::Tensor y = b.cpu().contiguous();
  return x.nbytes() == y.nbytes() &&
         (x.nbytes() == 0 || std::memcmp(x.data_ptr(), y.data_ptr(), x.nbytes()) == 0);
}

inline bool same_bits(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!same_bits(a[i], b[i])) return false;
  return true;
}

/// The largest |a - b| / (1 + |b|) over all elements.
inline double largest_difference(const std::vector<at::Tensor>& a,
                                 const std::vector<at::Tensor>& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].numel() == 0) continue;
    const at::Tensor x = a[i].cpu().to(at::kDouble);
    const at::Tensor y = b[i].cpu().to(at::kDouble);
    largest = std::max(largest, ((x - y).abs() / (1 + y.abs())).max().item<double>());
  }
  return largest;
}

}  // namespace triaccel::kernels
