#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace triaccel {

/// "300MiB", "1.5GB", "4096" -> bytes. Binary (KiB, MiB, GiB) and decimal (kB, MB, GB) units;
/// `who` names the option in the error.
std::int64_t parse_byte_size(std::string_view written, std::string_view who);

/// A memory budget as users write it: "300MiB", "2GB", "80%" of the device's memory, or "none".
/// Parsed once, where it is written; what cannot be read is a UsageError.
class Budget {
 public:
  Budget() = default;  // none
  /// `who` wants it, for the message where it is none.
  Budget(std::string_view written, std::string_view who = "--budget");
  Budget(const std::string& written) : Budget(std::string_view(written)) {}
  Budget(const char* written) : Budget(std::string_view(written)) {}

  /// The budget in bytes on a device with this much memory; 0: no budget.
  std::int64_t bytes_on(std::int64_t device_bytes) const;

  const std::string& text() const { return text_; }
  friend bool operator==(const Budget&, const Budget&) = default;

 private:
  std::string text_ = "none";
  std::int64_t bytes_ = 0;
  double share_ = 0;
};

/// 314572800 -> "300 MiB", with at most one decimal.
std::string byte_text(std::int64_t bytes);

/// The same, never less than it is: a budget that is written so holds the bytes.
std::string byte_text_upwards(std::int64_t bytes);

}  // namespace triaccel
