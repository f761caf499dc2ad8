#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace triaccel {

enum class OptimizerKind { Sgd, AdamW };

/// As --optimizer takes them, in the order of the enumerators, and the help line of that option.
inline constexpr std::array<std::string_view, 2> kOptimizerNames = {"sgd", "adamw"};
inline constexpr std::string_view kOptimizerHelp = "sgd or adamw";

/// Format of the optimizer state.
enum class StateFormat {
  Fp32,
  Fp8,  // a quarter of the memory: see Note [State in 8 bits] in
        // kernels/update/state_codec.h
};

struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::Sgd;
  StateFormat state = StateFormat::Fp32;
  double momentum = 0.9;       // SGD
  bool nesterov = false;       // SGD
  double weight_decay = 5e-4;  // SGD: added to the gradient; AdamW: decoupled from it
  double beta1 = 0.9;          // AdamW
  double beta2 = 0.999;        // AdamW
  double epsilon = 1e-8;       // AdamW
  std::uint64_t seed = 0;      // of the run: for stochastic rounding of 8-bit states
};

}  // namespace triaccel
