#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "triaccel/core/step_plan.h"

namespace triaccel {

inline constexpr const char* kPlansJsonl = "plans.jsonl";

/// One letter a precision, as the files write it: f(p32), b(f16), h(alf, fp16), i(nt8).
char letter_of(Precision precision);
std::optional<Precision> precision_of(char letter);

/// One letter a layer, in forward order: "fbbbh".
std::string precision_letters(const StepPlan& plan);

/// One line of plans.jsonl, without its line break. `bp_layers` stands there when the layers before
/// that many last ones train by the loss alone; `formats` (r(aw), l(ossless), c(oded) a layer) and
/// `saved` (saved_plan_text.h, one a tensor) where not everything is raw.
std::string to_jsonl(const ScheduledPlan& record);

/// Reads plans.jsonl, or a file written by hand: one object a line with step, batch and precisions;
/// micro_batch is the batch, rates are 1 where a line leaves them out. By rising step: a line makes
/// those before it void whose step is not lower, for a plan may be given up before its first step,
/// and a run may go back to a checkpoint. A torn last line is left out. Throws StorageError naming
/// file and line.
std::vector<ScheduledPlan> read_plans(const std::filesystem::path& path);

}  // namespace triaccel
