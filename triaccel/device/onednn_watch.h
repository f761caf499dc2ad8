#pragma once

#include <cstdint>

namespace triaccel {

/// A matrix product that gets no memory for oneDNN goes by BLAS instead, and libtorch switches
/// oneDNN off for the rest of the process, with a warning (on Arm, where such products are
/// oneDNN's). Work in which that happened ran out of memory like any other; and what comes after it
/// must be computed as before.
class [[nodiscard]] OneDnnWatch {
 public:
  OneDnnWatch();
  ~OneDnnWatch();  // puts the switch back
  OneDnnWatch(const OneDnnWatch&) = delete;
  OneDnnWatch& operator=(const OneDnnWatch&) = delete;

  /// Throws OutOfMemory where it happened since.
  void check() const;

 private:
  bool switched_off() const;

  bool was_on_;
  std::int64_t refusals_;
};

}  // namespace triaccel
