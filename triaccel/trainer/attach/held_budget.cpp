#include "triaccel/trainer/attach/held_budget.h"

#include <algorithm>
#include <mutex>
#include <vector>

namespace triaccel {
namespace {

std::mutex held_mutex;
std::vector<const HeldBudget*> held_budgets;  // in the order in which sessions began

}  // namespace

HeldBudget::HeldBudget(MemoryGauge& gauge, c10::Device device, std::int64_t bytes)
    : gauge_(gauge), device_(device), bytes_(bytes) {
  gauge_.release_cache();  // cached memory counts, too, and a limit is checked only where the
                           // allocator takes more
  const std::lock_guard lock(held_mutex);
  held_budgets.push_back(this);
  put_in_force();
}

HeldBudget::~HeldBudget() {
  const std::lock_guard lock(held_mutex);
  std::erase(held_budgets, this);
  put_in_force();
}

void HeldBudget::put_in_force() {
  const auto last = std::find_if(held_budgets.rbegin(), held_budgets.rend(),
                                 [&](const HeldBudget* one) { return one->device_ == device_; });
  gauge_.set_limit(last == held_budgets.rend() ? 0 : (*last)->bytes_);
}

}  // namespace triaccel
