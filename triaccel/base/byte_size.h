#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace triaccel {

/// "300MiB", "1.5GB", "4096" -> bytes. Binary (KiB, MiB, GiB) and decimal (kB, MB, GB) units;
/// `who` names the option in the error.
std::int64_t parse_byte_size(std::string_view written, std::string_view who);

/// A memory budget as users write it: bytes, or "80%" of `device_bytes`; "" or "none" means none
/// (0).
std::int64_t parse_budget(std::string_view written, std::int64_t device_bytes,
                          std::string_view who);

/// 314572800 -> "300 MiB", with at most one decimal.
std::string byte_text(std::int64_t bytes);

}  // namespace triaccel
