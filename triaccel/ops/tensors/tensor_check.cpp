#include "triaccel/ops/tensors/tensor_check.h"

#include <ATen/ATen.h>
#include <ATen/MemoryOverlap.h>

#include <algorithm>
#include <iterator>

#include "triaccel/base/error.h"

namespace triaccel {
namespace {

bool shape_matches(at::IntArrayRef found, std::initializer_list<std::int64_t> wanted) {
  return std::equal(
      found.begin(), found.end(), wanted.begin(), wanted.end(),
      [](std::int64_t extent, std::int64_t want) { return want < 0 || extent == want; });
}

}  // namespace

void check_tensor(std::string_view who, std::string_view name, const at::Tensor& tensor,
                  const at::Device& device, at::ScalarType type) {
  require(tensor.defined(), who, name, " is an undefined tensor");
  require(tensor.layout() == at::kStrided, who, name, " must be a strided tensor, got ",
          tensor.layout());
  require(tensor.device() == device, who, name, " must lie on ", device.str(), ", got ",
          tensor.device().str());
  require(tensor.scalar_type() == type, who, name, " must be ", c10::toString(type), ", got ",
          c10::toString(tensor.scalar_type()));
}

void check_contiguous(std::string_view who, std::string_view name, const at::Tensor& tensor,
                      const at::Device& device, at::ScalarType type,
                      std::initializer_list<std::int64_t> shape) {
  check_tensor(who, name, tensor, device, type);
  require(shape_matches(tensor.sizes(), shape), who, name, " must have shape ",
          at::IntArrayRef(shape), " (-1: any), got ", tensor.sizes());
  require(tensor.is_contiguous(), who, name, " must be contiguous; call contiguous() on it");
}

void check_map(std::string_view who, std::string_view name, const at::Tensor& map,
               const at::Device& device, at::ScalarType type, at::IntArrayRef shape,
               std::size_t alignment) {
  check_tensor(who, name, map, device, type);
  require(map.sizes() == shape, who, name, " must have shape ", shape, ", got ", map.sizes());
  require(map.is_contiguous(at::MemoryFormat::ChannelsLast), who, name,
          " must be dense and channels-last; call contiguous(ChannelsLast) on it");
  require(reinterpret_cast<std::uintptr_t>(map.const_data_ptr()) % alignment == 0, who, name,
          " must lie at a multiple of ", alignment, " bytes; call clone() on it");
}

bool same_memory_order(const at::Tensor& a, const at::Tensor& b) {
  for (std::int64_t d = 0; d < a.dim(); ++d)
    if (a.size(d) != 1 && a.stride(d) != b.stride(d)) return false;
  return true;
}

std::vector<at::Tensor> writable_among(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> writable;
  std::ranges::copy_if(tensors, std::back_inserter(writable), [](const at::Tensor& tensor) {
    return at::has_internal_overlap(tensor) != at::MemOverlap::Yes;
  });
  return writable;
}

bool is_float_type(at::ScalarType type) {
  return type == at::kFloat || type == at::kBFloat16 || type == at::kHalf;
}

kernels::FloatType float_type_of(std::string_view who, std::string_view name, at::ScalarType type) {
  if (type == at::kFloat) return kernels::FloatType::F32;
  if (type == at::kBFloat16) return kernels::FloatType::Bf16;
  if (type == at::kHalf) return kernels::FloatType::F16;
  throw UsageError(text("[", who, "] ", name, " must be float32, bfloat16 or float16, got ",
                        c10::toString(type)));
}

}  // namespace triaccel
