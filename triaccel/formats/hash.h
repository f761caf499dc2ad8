#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace triaccel {

/// XXH3-64: detects damage, not tampering. Platform-independent; `xxhsum -H3` prints it too.
std::uint64_t xxh3(std::span<const std::byte> bytes);
std::uint64_t xxh3(std::string_view characters);

/// The same hash, computed incrementally.
class Xxh3 {
 public:
  Xxh3();
  ~Xxh3();
  Xxh3(Xxh3&&) noexcept;
  Xxh3& operator=(Xxh3&&) noexcept;

  void add(std::span<const std::byte> bytes);
  std::uint64_t value() const;  // of everything added since the last reset
  void reset();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Sixteen lower-case hexadecimal digits, as files store a hash.
std::string hash_text(std::uint64_t hash);

}  // namespace triaccel
