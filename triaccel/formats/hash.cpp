#define XXH_INLINE_ALL
#include "triaccel/formats/hash.h"

#include <xxhash.h>

#include "triaccel/base/error.h"

namespace triaccel {

struct Xxh3::State {
  XXH3_state_t state;
};

Xxh3::Xxh3() : state_(std::make_unique<State>()) { reset(); }
Xxh3::~Xxh3() = default;
Xxh3::Xxh3(Xxh3&&) noexcept = default;
Xxh3& Xxh3::operator=(Xxh3&&) noexcept = default;

void Xxh3::add(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  ensure(XXH3_64bits_update(&state_->state, bytes.data(), bytes.size()) == XXH_OK,
         "xxh3 update succeeds");
}

std::uint64_t Xxh3::value() const { return XXH3_64bits_digest(&state_->state); }

void Xxh3::reset() { ensure(XXH3_64bits_reset(&state_->state) == XXH_OK, "xxh3 reset succeeds"); }

std::uint64_t xxh3(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::uint64_t xxh3(std::string_view characters) {
  return xxh3(std::as_bytes(std::span(characters.data(), characters.size())));
}

std::string hash_text(std::uint64_t hash) {
  std::string digits(16, '0');
  for (std::size_t i = 0; i < digits.size(); ++i)
    digits[i] = "0123456789abcdef"[(hash >> (60 - 4 * i)) & 15];
  return digits;
}

}  // namespace triaccel
