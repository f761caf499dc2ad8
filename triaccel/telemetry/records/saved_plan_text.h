#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "triaccel/core/saved_plan.h"

namespace triaccel {

/// A width as people and files write it, in bits and exact: "2", "2.5", "0.125".
std::string bits_text(int eighths);

/// How a tensor is kept, on a few characters: "mask", "groups 2.5", "frequency8 8 5 2 1 0".
std::string saved_plan_text(const SavedPlan& plan);

/// Reads what saved_plan_text wrote; nothing when it is something else.
std::optional<SavedPlan> saved_plan_from(std::string_view words);

}  // namespace triaccel
