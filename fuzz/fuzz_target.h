#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "triaccel/base/error.h"

// libFuzzer's entry points, declared for -Wmissing-declarations.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned int seed);
extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace triaccel::fuzz {

inline std::span<const std::byte> bytes_of(const std::uint8_t* data, std::size_t size) {
  return std::as_bytes(std::span(data, size));
}

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

/// Runs `parse`; malicious input may only throw `Refusal`. Any other exception ends the program,
/// which libFuzzer reports with the input.
template <typename Refusal, typename Parse>
void parse_or_refuse(const Parse& parse) {
  try {
    parse();
  } catch (const Refusal&) {
  }
}

/// Ends the program if an invariant of the parsed data is violated.
inline void promise(bool kept) {
  if (!kept) __builtin_trap();
}

/// Structure-aware mutation of a safetensors file: the length prefix stays correct, the header
/// stays JSON, the offsets often still partition the data. Random bytes would almost always be
/// rejected at the prefix.
std::size_t mutate_safetensors(std::uint8_t* data, std::size_t size, std::size_t max_size,
                               unsigned int seed);

}  // namespace triaccel::fuzz
