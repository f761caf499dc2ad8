#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "triaccel/core/saved_census.h"

namespace triaccel {

/// What a census knows of a saved tensor before it is classed.
struct SavedFacts {
  std::string_view consumer = {};  // as SavedEntry
  std::string_view producer = {};  // as SavedEntry
  bool constant = false;           // a parameter, a buffer or a copy of one
  bool two_valued = false;         // zero or one other number, as a dropout's factors
  bool rectified = false;          // values show that a ReLU made it, whatever the producer's name
  int place = 0;                   // among the tensors its consumer saves, without constants
  ElementType type = ElementType::F32;
  std::vector<std::int64_t> sizes = {};  // as SavedEntry
  bool per_sample = false;               // likewise
};

/// What backward reads of it, by the operator that saves it and those that made it.
SavedClass saved_class(const SavedFacts& facts);

/// Whether the operator that made a tensor leaves nothing below zero, as its name tells.
bool is_rectified(std::string_view producer);

}  // namespace triaccel
