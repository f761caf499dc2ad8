#pragma once

#include "tests/kernels/common/tensor_bunch.h"
#include "triaccel/kernels/update/quantized_update.h"

namespace triaccel::kernels {

/// A bunch whose states are kept in 8 bits, those of all tensors in one flat buffer each.
struct CodedBunch {
  TensorBunch plain;              // its states are those the codes were made from
  at::Tensor first, second;       // U8
  std::vector<std::int64_t> at_;  // where the codes of each tensor begin

  explicit CodedBunch(const TensorBunch& bunch) : plain(bunch.on(at::kCPU)) {
    std::int64_t total = 0;
    for (const at::Tensor& parameter : plain.parameters) {
      at_.push_back(total);
      total += state_encoded_bytes(parameter.numel());
    }
    first = at::zeros({total}, at::kByte);
    second = at::zeros({total}, at::kByte);
    for (std::size_t i = 0; i < at_.size(); ++i) {
      const std::int64_t count = plain.parameters[i].numel();
      cpu::encode_state(plain.states1[i].data_ptr<float>(), count, Moment::First, i,
                        first.data_ptr<std::uint8_t>() + at_[i]);
      cpu::encode_state(plain.states2[i].data_ptr<float>(), count, Moment::Second, i,
                        second.data_ptr<std::uint8_t>() + at_[i]);
    }
  }

  CodedBunch on(at::Device device) const {
    CodedBunch copy = *this;
    copy.plain = plain.on(device);
    copy.first = first.to(device, at::kByte, false, true);
    copy.second = second.to(device, at::kByte, false, true);
    return copy;
  }

  std::vector<TensorEntry> entries() const {
    std::vector<TensorEntry> list = plain.entries();
    for (std::size_t i = 0; i < list.size(); ++i) {
      list[i].state1 = reinterpret_cast<float*>(first.data_ptr<std::uint8_t>() + at_[i]);
      list[i].state2 = reinterpret_cast<float*>(second.data_ptr<std::uint8_t>() + at_[i]);
    }
    return list;
  }

  StateNoise noise(std::uint64_t seed = 1) const { return {seed, first.data_ptr()}; }

  /// What the codes of tensor i stand for; on the host.
  at::Tensor decoded(Moment moment, std::size_t i) const {
    const at::Tensor values = at::empty({plain.parameters[i].numel()});
    const at::Tensor& codes = moment == Moment::First ? first : second;
    cpu::decode_state(codes.data_ptr<std::uint8_t>() + at_[i], values.numel(), moment,
                      values.data_ptr<float>());
    return values;
  }

  bool same_bits_as(const CodedBunch& other) const {
    return same_bits(plain.parameters, other.plain.parameters) && same_bits(first, other.first) &&
           same_bits(second, other.second);
  }
};

}  // namespace triaccel::kernels
