#include "triaccel/saved/activation_codec.h"

#include <utility>

#include "triaccel/base/error.h"

namespace triaccel {

std::uint8_t register_activation_codec(std::unique_ptr<const ActivationCodec> codec) {
  return register_codec(std::move(codec));
}

const ActivationCodec& activation_codec(std::uint8_t number) {
  const RegisteredCodec& codec = registered_codec(number);
  const auto* found = dynamic_cast<const ActivationCodec*>(&codec);
  require(found != nullptr, "activation_codec", "'", codec.name(),
          "' cannot encode tensors; add it with register_activation_codec");
  return *found;
}

}  // namespace triaccel
