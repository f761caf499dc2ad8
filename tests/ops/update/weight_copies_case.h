#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "triaccel/ops/update/weight_copies.h"

namespace triaccel {

/// What a copy should hold, by torch.
inline at::Tensor expected_copy(const WeightCopySpec& spec) {
  const at::Tensor weight = spec.weight.detach();
  if (weight.dim() != 4) return weight.to(spec.type);
  const WeightPart& part = spec.part;
  std::vector<at::Tensor> boxes;
  for (std::int64_t row = 0; row < part.boxes[0]; ++row)
    for (std::int64_t column = 0; column < part.boxes[1]; ++column) {
      at::Tensor box = weight;
      const std::int64_t before[2] = {row * part.step[0], column * part.step[1]};
      for (const std::size_t d : {0u, 1u}) {
        const auto axis = static_cast<std::int64_t>(d) + 2;
        const std::int64_t last = part.last_tap[d] == 0 ? weight.size(axis) : part.last_tap[d];
        box = box.slice(axis, part.first_tap[d] - before[d], last - before[d]);
      }
      boxes.push_back(box);
    }
  return at::cat(boxes).to(spec.type);
}

/// Every kind: dense, cropped, box after box of taps, in each memory order, of vector lengths and
/// odd ones, and more than one launch takes.
inline std::vector<WeightCopySpec> awkward_specs(at::Device device) {
  std::vector<WeightCopySpec> specs;
  const auto weight = [&](at::IntArrayRef sizes, bool channels_last) {
    const at::Tensor values = at::randn(sizes, at::TensorOptions(at::kFloat).device(device));
    return channels_last ? values.contiguous(at::MemoryFormat::ChannelsLast) : values;
  };
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    for (const bool last : {false, true}) {
      specs.push_back({.weight = weight({64, 16, 3, 3}, last), .type = type});
      specs.push_back({.weight = weight({7, 5, 3, 3}, last), .type = type});
      specs.back().weight[0][0][0][0] = 65519.0;  // rounds down to the largest F16
      specs.back().weight[0][0][0][1] = -INFINITY;
      specs.back().weight[0][0][0][2] = NAN;
      specs.push_back({.weight = weight({128, 64, 1, 1}, last), .type = type});
      specs.push_back({.weight = weight({32, 64, 3, 3}, last),
                       .type = type,
                       .part = {.first_tap = {1, 1}, .last_tap = {2, 2}}});
      specs.push_back({.weight = weight({5, 9, 5, 4}, last),
                       .type = type,
                       .part = {.first_tap = {1, 0}, .last_tap = {4, 3}}});
      specs.push_back({.weight = weight({64, 3, 7, 7}, last), .type = type});
      specs.push_back({.weight = weight({6, 16, 5, 5}, last),
                       .type = type,
                       .part = {.first_tap = {0, 1}, .last_tap = {0, 4}}});
    }
    for (const bool last : {false, true}) {
      specs.push_back(
          {.weight = weight({32, 16, 3, 3}, last),
           .type = type,
           .part = {.first_tap = {1, 1}, .last_tap = {3, 3}, .boxes = {2, 2}, .step = {1, 1}}});
      specs.push_back(
          {.weight = weight({5, 3, 5, 4}, last),
           .type = type,
           .part = {.first_tap = {4, 2}, .last_tap = {5, 4}, .boxes = {3, 2}, .step = {2, 1}}});
    }
    specs.push_back({.weight = weight({1000, 513}, false), .type = type});
    specs.push_back({.weight = weight({40, 24}, false).t(), .type = type});
    specs.push_back({.weight = weight({10, 7}, false), .type = type});
    specs.push_back({.weight = weight({4, 6, 3, 3}, false).permute({1, 3, 0, 2}), .type = type});
    specs.push_back({.weight = weight({33, 8}, false).narrow(0, 1, 32), .type = type});
    specs.push_back({.weight = weight({103}, false).narrow(0, 1, 102).view({6, 17}), .type = type});
    for (int i = 0; i < 40; ++i)
      specs.push_back({.weight = weight({i % 5, 3}, false), .type = type});
  }
  return specs;
}

/// A part of `weight`'s gradient as its layer computes it, and the whole by torch.
struct GradientPart {
  at::Tensor weight, part;
  std::array<std::int64_t, 2> first, last;

  at::Tensor expected() const {
    at::Tensor whole = at::zeros_like(weight, part.options());
    at::Tensor window = whole;
    if (weight.dim() == 4) window = whole.slice(2, first[0], last[0]).slice(3, first[1], last[1]);
    window.copy_(part);
    return whole;
  }
};

inline std::vector<GradientPart> awkward_parts(at::Device device) {
  std::vector<GradientPart> parts;
  const auto floats = at::TensorOptions(at::kFloat).device(device);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf})
    for (const bool last : {false, true}) {
      const auto format = last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
      const auto add = [&](at::IntArrayRef weight, at::IntArrayRef part,
                           std::array<std::int64_t, 2> first, std::array<std::int64_t, 2> end) {
        parts.push_back({at::randn(weight, floats).contiguous(format),
                         at::randn(part, floats).to(type).contiguous(format), first, end});
      };
      add({64, 128, 3, 3}, {64, 128, 1, 1}, {1, 1}, {2, 2});
      add({16, 64, 3, 3}, {16, 64, 2, 2}, {1, 1}, {3, 3});
      add({5, 7, 4, 3}, {5, 7, 2, 3}, {1, 0}, {3, 3});
      add({64, 3, 7, 7}, {64, 3, 7, 7}, {0, 0}, {7, 7});
      add({9, 3, 3, 3}, {9, 3, 1, 2}, {2, 1}, {3, 3});
      add({32, 16, 1, 1}, {32, 16, 1, 1}, {0, 0}, {1, 1});
    }
  return parts;
}

}  // namespace triaccel
