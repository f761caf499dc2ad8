#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace triaccel {

/// The tensor-free part of a codec that the program registered, for plans, records and messages.
/// ActivationCodec in triaccel/saved/activation_codec.h adds encode and decode.
class RegisteredCodec {
 public:
  virtual ~RegisteredCodec() = default;

  /// As in `--activations NAME` and plans.jsonl: lower-case letters, digits and hyphens.
  virtual std::string_view name() const = 0;

  /// Bytes of an encoded tensor of these sizes, exact.
  virtual std::int64_t bytes(std::span<const std::int64_t> sizes) const = 0;

  /// Bits per element, headers not counted: for reports and predicted errors.
  virtual double bits() const = 0;

  /// Whether a tensor that several operations save is encoded once for all of them.
  virtual bool shares() const { return true; }
};

/// Adds a codec and returns its number. Throws UsageError for a name that is invalid or taken by
/// another codec or mode. To be called before training starts; codecs stay until the program ends.
std::uint8_t register_codec(std::unique_ptr<const RegisteredCodec> codec);

/// Throws UsageError for an unknown number.
const RegisteredCodec& registered_codec(std::uint8_t number);

std::optional<std::uint8_t> find_registered_codec(std::string_view name);

/// In the order of registration.
std::vector<std::string_view> registered_codec_names();

}  // namespace triaccel
