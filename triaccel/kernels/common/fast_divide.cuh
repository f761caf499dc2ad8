#pragma once

#include <cstdint>

#include "triaccel/base/host_device.h"

namespace triaccel::kernels::cuda {

/// Division of numbers below 2^31 by one that the host knows: a multiplication and a shift
/// (Granlund and Montgomery, 1994), where the hardware would take a sequence of twenty.
class FastDivide {
 public:
  explicit FastDivide(std::int64_t by) : by_(static_cast<std::uint32_t>(by)) {
    while (std::uint64_t{1} << shift_ < by_) ++shift_;
    factor_ = static_cast<std::uint32_t>(
        (std::uint64_t{1} << 32) * ((std::uint64_t{1} << shift_) - by_) / by_ + 1);
  }

  struct Result {
    std::int32_t quotient, remainder;
  };

  TRIACCEL_HOST_DEVICE Result operator()(std::int32_t number) const {
    const auto n = static_cast<std::uint32_t>(number);
    const auto upper = static_cast<std::uint32_t>((std::uint64_t{n} * factor_) >> 32);
    const std::uint32_t quotient = (upper + n) >> shift_;
    return {static_cast<std::int32_t>(quotient), static_cast<std::int32_t>(n - quotient * by_)};
  }

 private:
  std::uint32_t by_;
  std::uint32_t factor_ = 0;
  std::uint32_t shift_ = 0;
};

}  // namespace triaccel::kernels::cuda
