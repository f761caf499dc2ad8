#pragma once

#include <cstddef>
#include <cstdint>

namespace triaccel::fuzz {

/// Changes a safetensors file mostly inside its structure: the length prefix stays true, the header
/// stays JSON, the offsets often stay a partition of the data. Random bytes alone would almost
/// always be refused at the prefix and never reach the checks behind it.
std::size_t mutate_safetensors(std::uint8_t* data, std::size_t size, std::size_t max_size,
                               unsigned int seed);

}  // namespace triaccel::fuzz
