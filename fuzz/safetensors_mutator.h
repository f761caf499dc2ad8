#pragma once

#include <cstddef>
#include <cstdint>

namespace triaccel::fuzz {

/// Structure-aware mutation of a safetensors file: the length prefix stays correct, the header
/// stays JSON, the offsets often still partition the data. Random bytes would almost always be
/// rejected at the prefix.
std::size_t mutate_safetensors(std::uint8_t* data, std::size_t size, std::size_t max_size,
                               unsigned int seed);

}  // namespace triaccel::fuzz
