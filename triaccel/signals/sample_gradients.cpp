#include "triaccel/signals/sample_gradients.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "triaccel/layers/convolution/live_taps.h"

namespace triaccel {
namespace {

constexpr std::int64_t kFloatBytes = 4;

std::int64_t product_of(at::IntArrayRef values) { return c10::multiply_integers(values); }

/// Sum over all pairs of positions of <left, left'> <right, right'>; both [samples * positions, *].
at::Tensor gram_by_positions(const at::Tensor& left, const at::Tensor& right,
                             std::int64_t samples) {
  const at::Tensor pairs = at::mm(left, left.t()).mul_(at::mm(right, right.t()));
  const std::int64_t positions = left.size(0) / samples;
  return pairs.view({samples, positions, samples, positions}).sum({1, 3});
}

/// Whether gram_by_positions is cheaper than forming the gradients and fits the workspace, twice
/// over: it is chosen for large weights on small maps, which would take dozens of slices.
bool better_by_positions(std::int64_t positions, std::int64_t rows, std::int64_t columns,
                         const GramSize& size) {
  const double n = static_cast<double>(size.samples), p = static_cast<double>(positions);
  const double r = static_cast<double>(rows), c = static_cast<double>(columns);
  const double bytes = static_cast<double>(kFloatBytes) * (2 * n * p * n * p + n * p * (r + c));
  return n * p * p * (r + c) < (n + p) * r * c &&
         bytes <= 2 * static_cast<double>(size.workspace_bytes);
}

/// A convolution's padded input and its output gradient; swapped for a transposed convolution.
struct Convolved {
  at::Tensor input;
  at::Tensor output;
  std::vector<std::int64_t> kernel;
  ConvolutionGeometry geometry;

  std::int64_t positions() const { return product_of(output.sizes().slice(2)); }
  std::int64_t taps() const { return product_of(kernel); }

  /// The input under the kernel at each position, as a view: [batch, channels, kernel, positions].
  at::Tensor patches(const at::Tensor& channels) const {
    std::vector<std::int64_t> sizes = {channels.size(0), channels.size(1)};
    std::vector<std::int64_t> strides = {channels.stride(0), channels.stride(1)};
    const auto dims = static_cast<std::int64_t>(kernel.size());
    for (std::int64_t d = 0; d < dims; ++d) {
      const auto i = static_cast<std::size_t>(d);
      sizes.push_back(kernel[i]);
      strides.push_back(geometry.dilation[i] * channels.stride(d + 2));
    }
    for (std::int64_t d = 0; d < dims; ++d) {
      sizes.push_back(output.size(d + 2));
      strides.push_back(geometry.stride[static_cast<std::size_t>(d)] * channels.stride(d + 2));
    }
    return channels.as_strided(sizes, strides, channels.storage_offset());
  }

  /// The same as rows, [batch, positions, kernel * channels]: channels-last maps are copied
  /// contiguously.
  at::Tensor rows(const at::Tensor& channels) const {
    const auto dims = static_cast<std::int64_t>(kernel.size());
    std::vector<std::int64_t> positions_first = {0};
    for (std::int64_t d = 0; d < dims; ++d) positions_first.push_back(2 + dims + d);
    for (std::int64_t d = 0; d < dims; ++d) positions_first.push_back(2 + d);
    positions_first.push_back(1);
    return patches(channels)
        .permute(positions_first)
        .reshape({channels.size(0), positions(), taps() * channels.size(1)});
  }

  /// The output's gradient, [batch, positions, channels].
  at::Tensor output_rows() const { return output.flatten(2).transpose(1, 2); }
};

/// The kernel positions that overlap the map; gradients of the others are zero.
struct LiveKernel {
  std::vector<std::int64_t> sizes;
  ConvolutionGeometry geometry;
};

LiveKernel live_kernel(const at::Tensor& input, at::IntArrayRef kernel,
                       const ConvolutionGeometry& geometry) {
  LiveKernel live{.sizes = kernel.vec(), .geometry = geometry};
  if (geometry.transposed) return live;
  for (std::size_t i = 0; i < kernel.size(); ++i) {
    const LiveTaps taps = live_taps({.map = input.size(static_cast<std::int64_t>(i) + 2),
                                     .kernel = kernel[i],
                                     .stride = geometry.stride[i],
                                     .padding = geometry.padding[i],
                                     .dilation = geometry.dilation[i]});
    live.sizes[i] = taps.last - taps.first;
    live.geometry.padding[i] = taps.padding;
  }
  return live;
}

Convolved convolved(const at::Tensor& input, const at::Tensor& output_gradient,
                    at::IntArrayRef kernel, const ConvolutionGeometry& geometry) {
  const at::Tensor& padded = geometry.transposed ? output_gradient : input;
  std::vector<std::int64_t> margins;  // of the last dimension first
  for (auto margin = geometry.padding.rbegin(); margin != geometry.padding.rend(); ++margin)
    margins.insert(margins.end(), 2, *margin);
  const bool any = std::any_of(margins.begin(), margins.end(), [](auto m) { return m != 0; });
  return {.input = any ? at::constant_pad_nd(padded, margins) : padded,
          .output = geometry.transposed ? input : output_gradient,
          .kernel = kernel.vec(),
          .geometry = geometry};
}

at::Tensor by_positions(const Convolved& all, std::int64_t samples) {
  return gram_by_positions(all.output_rows().flatten(0, 1), all.rows(all.input).flatten(0, 1),
                           samples);
}

/// [samples, samples] from [samples, elements]. The long sum is split into a batched product: a
/// single skinny GEMM would leave a GPU idle.
at::Tensor inner_products(const at::Tensor& gradients) {
  constexpr std::int64_t kParts = 128, kShortest = 64;
  const std::int64_t samples = gradients.size(0), part = gradients.size(1) / kParts;
  if (part < kShortest) return at::mm(gradients, gradients.t());
  const at::Tensor parts =
      gradients.narrow(1, 0, kParts * part).view({samples, kParts, part}).transpose(0, 1);
  at::Tensor gram = at::bmm(parts, parts.transpose(1, 2)).sum(0);
  const std::int64_t rest = gradients.size(1) - kParts * part;
  if (rest > 0) {
    const at::Tensor tail = gradients.narrow(1, kParts * part, rest);
    gram.addmm_(tail, tail.t());
  }
  return gram;
}

}  // namespace

SampleGradients product_gradients(const at::Tensor& left, const at::Tensor& right,
                                  const GramSize& size) {
  const std::int64_t samples = size.samples, rows = left.size(-1), columns = right.size(-1);
  const at::Tensor l = left.contiguous().view({samples, -1, rows});
  const at::Tensor r = right.contiguous().view({samples, -1, columns});
  SampleGradients gradients{.slices = columns,
                            .slice_bytes = kFloatBytes * samples * rows,
                            .map_bytes = static_cast<std::int64_t>(left.nbytes() + right.nbytes())};
  gradients.slice = [l, r](std::int64_t first, std::int64_t count) {
    return at::bmm(l.transpose(1, 2), r.narrow(2, first, count)).flatten(1);
  };
  if (better_by_positions(l.size(1), rows, columns, size))
    gradients.gram = [l, r, samples] {
      return gram_by_positions(l.flatten(0, 1), r.flatten(0, 1), samples);
    };
  return gradients;
}

SampleGradients convolution_gradients(const at::Tensor& input, const at::Tensor& output_gradient,
                                      at::IntArrayRef kernel, const ConvolutionGeometry& geometry,
                                      const GramSize& size) {
  const LiveKernel live = live_kernel(input, kernel, geometry);
  const Convolved all = convolved(input, output_gradient, live.sizes, live.geometry);
  const std::int64_t samples = size.samples, batch = all.input.size(0), groups = geometry.groups;
  const std::int64_t taps = all.taps(), positions = all.positions();
  const std::int64_t rows = all.output.size(1) / groups;
  // A slice is one input channel, or one group with all its channels.
  const std::int64_t channels = groups == 1 ? 1 : all.input.size(1) / groups;
  SampleGradients gradients{
      .slices = all.input.size(1) / channels,
      .slice_bytes = kFloatBytes * batch * channels * taps * (positions + rows),
      .map_bytes = static_cast<std::int64_t>(input.nbytes() + output_gradient.nbytes())};
  gradients.slice = [=](std::int64_t first, std::int64_t count) {
    const at::Tensor inputs = all.input.narrow(1, first * channels, count * channels);
    at::Tensor each;
    if (groups == 1) {
      each = at::bmm(all.output_rows().transpose(1, 2), all.rows(inputs));
    } else {
      const at::Tensor left = all.output.narrow(1, first * rows, count * rows)
                                  .reshape({batch * count, rows, positions});
      const at::Tensor right = all.patches(inputs).reshape({batch * count, -1, positions});
      each = at::bmm(left, right.transpose(1, 2));
    }
    return batch == samples ? each.view({samples, -1})
                            : each.view({samples, batch / samples, -1}).sum(1);
  };
  const std::int64_t all_positions = positions * (batch / samples);
  if (groups == 1 && better_by_positions(all_positions, rows, all.input.size(1) * taps, size))
    gradients.gram = [all, samples] { return by_positions(all, samples); };
  return gradients;
}

SampleGradients table_gradients(const at::Tensor& indices, const at::Tensor& output_gradient,
                                std::int64_t rows, std::int64_t padding_index,
                                const GramSize& size) {
  const std::int64_t samples = size.samples, columns = output_gradient.size(-1);
  const at::Tensor first_rows =
      at::arange(0, samples * rows, rows, indices.options()).unsqueeze(1);  // of each sample
  const at::Tensor places = (indices.reshape({samples, -1}) + first_rows).flatten();
  at::Tensor values = output_gradient.reshape({-1, columns});
  if (padding_index >= 0)
    values = values.masked_fill(indices.reshape({-1, 1}) == padding_index, 0.0);
  SampleGradients gradients{.slices = columns, .slice_bytes = kFloatBytes * samples * rows};
  gradients.slice = [=](std::int64_t first, std::int64_t count) {
    return at::zeros({samples * rows, count}, values.options())
        .index_add_(0, places, values.narrow(1, first, count))
        .view({samples, -1});
  };
  return gradients;
}

SampleGradients bias_gradients(const at::Tensor& output_gradient, std::int64_t channels,
                               const GramSize& size) {
  const at::Tensor sums = output_gradient.movedim(channels, -1)
                              .reshape({size.samples, -1, output_gradient.size(channels)})
                              .sum(1);
  return {.slice = [sums](std::int64_t, std::int64_t) { return sums; }};
}

at::Tensor gram_of(const std::vector<SampleGradients>& uses, const GramSize& size) {
  if (uses.size() == 1 && uses.front().gram) return uses.front().gram();
  const std::int64_t slices = uses.front().slices;
  std::int64_t slice_bytes = 1, map_bytes = 0;
  for (const SampleGradients& use : uses) {
    slice_bytes += use.slice_bytes;
    map_bytes += use.map_bytes;
  }
  const std::int64_t workspace = std::max(size.workspace_bytes, size.workspace_per_map * map_bytes);
  const std::int64_t step = std::clamp<std::int64_t>(workspace / slice_bytes, 1, slices);
  at::Tensor gram;
  for (std::int64_t first = 0; first < slices; first += step) {
    const std::int64_t count = std::min(step, slices - first);
    at::Tensor gradients = uses.front().slice(first, count);
    for (std::size_t i = 1; i < uses.size(); ++i)
      gradients = gradients + uses[i].slice(first, count);
    at::Tensor part = inner_products(gradients);
    if (gram.defined())
      gram.add_(part);
    else
      gram = std::move(part);
  }
  return gram;
}

}  // namespace triaccel
