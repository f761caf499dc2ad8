#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "triaccel/core/saved_plan.h"
#include "triaccel/core/step_plan.h"

namespace triaccel {

inline constexpr const char* kPlansJsonl = "plans.jsonl";

/// One letter per precision: f(p32), b(f16), h(alf, fp16), i(nt8).
char letter_of(Precision precision);
std::optional<Precision> precision_of(char letter);

/// One letter per layer, in forward order: "fbbbh".
std::string precision_letters(const StepPlan& plan);

/// One line of plans.jsonl, without its line break. Optional: `bp_layers`, if only that many last
/// layers use backpropagation and the others a zeroth-order estimate; `formats` (per layer: r(aw),
/// l(ossless), c(ompressed)) and `saved` (saved_plan_text per tensor), if not all activations are
/// raw.
std::string to_jsonl(const ScheduledPlan& record);

/// Reads plans.jsonl, or a hand-written file: one object per line with step, batch and precisions;
/// micro_batch defaults to the batch, learning-rate scales to 1. Sorted by step: a line replaces
/// earlier ones with the same or a later step, since a plan may be replaced before its first step
/// and a run may roll back to a checkpoint. An incomplete last line is skipped. Throws StorageError
/// naming file and line, or drops a damaged line after `on_damage`.
std::vector<ScheduledPlan> read_plans(
    const std::filesystem::path& path,
    const std::function<void(const std::string& problem)>& on_damage = {});

/// An exact bit width as text: "2", "2.5", "0.125".
std::string bits_text(int eighths);

/// The plan of a saved tensor as short text: "mask", "groups 2.5", "frequency8 8 5 2 1 0".
std::string saved_plan_text(const SavedPlan& plan);

/// Parses the output of saved_plan_text; nothing for other text.
std::optional<SavedPlan> saved_plan_from(std::string_view words);

}  // namespace triaccel
