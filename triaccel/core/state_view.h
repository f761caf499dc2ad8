#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "triaccel/base/error.h"
#include "triaccel/core/precision.h"

namespace triaccel {

/// One named piece of a part's state as host bytes, row-major and little-endian: what a checkpoint
/// stores and hands back, without knowing whose it is.
struct StateView {
  std::string name = {};
  ElementType type = ElementType::F32;
  std::vector<std::int64_t> shape = {};
  std::span<const std::byte> bytes = {};
  std::shared_ptr<const void> owner = {};  // keeps `bytes` alive; null when the part itself does
};

using StateMap = std::map<std::string, StateView>;

/// A part whose state survives a restart.
class Stateful {
 public:
  virtual ~Stateful() = default;

  /// Everything needed to continue exactly as if nothing had happened.
  virtual std::vector<StateView> state() const = 0;

  /// Takes back what state() handed out; throws before it changes anything when an entry is
  /// missing or has another shape.
  virtual void restore(const StateMap& saved) = 0;
};

constexpr ElementType element_type_of(std::int64_t) { return ElementType::I64; }
constexpr ElementType element_type_of(double) { return ElementType::F64; }
constexpr ElementType element_type_of(float) { return ElementType::F32; }
constexpr ElementType element_type_of(std::uint8_t) { return ElementType::U8; }

/// State made of plain numbers, copied.
template <typename T>
StateView number_state(std::string name, const std::vector<T>& values) {
  auto copy = std::make_shared<std::vector<T>>(values);
  const std::span<const std::byte> bytes = std::as_bytes(std::span(*copy));
  return {std::move(name),
          element_type_of(T{}),
          {static_cast<std::int64_t>(values.size())},
          bytes,
          std::move(copy)};
}

/// Reads what number_state wrote; `count` values are expected, any number when it is negative.
template <typename T>
std::vector<T> numbers_from(const StateMap& saved, const std::string& name,
                            std::int64_t count = -1) {
  const auto found = saved.find(name);
  if (found == saved.end()) throw StorageError(text("the checkpoint has no state '", name, "'"));
  const StateView& view = found->second;
  const std::size_t size = view.bytes.size() / sizeof(T);
  if (view.type != element_type_of(T{}) || view.bytes.size() % sizeof(T) != 0 ||
      (count >= 0 && size != static_cast<std::size_t>(count)))
    throw StorageError(text("the checkpoint's state '", name, "' has another type or size"));
  std::vector<T> values(size);
  if (size > 0) std::memcpy(values.data(), view.bytes.data(), view.bytes.size());
  return values;
}

/// Sets as many variables to the values that numbers_from read, in order.
template <typename T, typename... Variables>
void assign_numbers(const std::vector<T>& values, Variables&... into) {
  auto next = values.begin();
  ((into = static_cast<Variables>(*next++)), ...);
}

}  // namespace triaccel
