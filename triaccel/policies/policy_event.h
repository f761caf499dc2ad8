#pragma once

#include <string>
#include <vector>

namespace triaccel {

/// What the policies did in a tick and why, for people: guards that fired, changes of the plan.
using PolicyEvents = std::vector<std::string>;

}  // namespace triaccel
