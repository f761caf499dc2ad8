#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace triaccel {

enum class OptimizerKind { Sgd, AdamW, AdaLomo, ApolloMini };

/// As --optimizer takes them, in the order of the enumerators, and the help line of that option.
inline constexpr std::array<std::string_view, 4> kOptimizerNames = {"sgd", "adamw", "adalomo",
                                                                    "apollo-mini"};
inline constexpr std::string_view kOptimizerHelp =
    "sgd, adamw, or with little state: adalomo, apollo-mini";

constexpr std::string_view optimizer_name(OptimizerKind kind) {
  return kOptimizerNames[static_cast<std::size_t>(kind)];
}

/// Whether its state is one or two numbers per weight, which may be kept in 8 bits.
constexpr bool has_moments(OptimizerKind kind) {
  return kind == OptimizerKind::Sgd || kind == OptimizerKind::AdamW;
}

/// Format and place of the optimizer state.
enum class StateFormat {
  Fp32,
  Fp8,   // a quarter of the memory: see Note [State in 8 bits] in
         // kernels/update/state_codec.h
  Host,  // FP32 in host memory, which a GPU reads and writes in place, over the bus
};

struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::Sgd;
  StateFormat state = StateFormat::Fp32;
  double momentum = 0.9;                   // SGD
  bool nesterov = false;                   // SGD
  double weight_decay = 5e-4;              // SGD: added to the gradient; others: decoupled from it
  double beta1 = 0.9;                      // AdamW, APOLLO-Mini
  double beta2 = 0.999;                    // AdamW, APOLLO-Mini
  double epsilon = 1e-8;                   // AdamW, APOLLO-Mini
  std::int64_t projection_interval = 200;  // APOLLO-Mini: steps with the same projection
  std::uint64_t seed = 0;  // of the run: for stochastic rounding of 8-bit states and projections
};

}  // namespace triaccel
