#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "triaccel/int8/training/recipe.h"
#include "triaccel/int8_run/samples.h"

namespace triaccel {

/// What a user may say about integer training. Strings: "" is the recipe's value, "4" or "3-6" a
/// schedule.
struct Int8Settings {
  std::uint64_t seed = 0;
  std::int64_t batch = 0;      // largest of a step; 0: does not train
  std::int64_t bp_layers = 0;  // last layers that backpropagate
  bool clean_pass = false;     // backpropagate from an extra pass with unperturbed weights
  bool freeze = false;         // the layers before them keep their weights
  bool sign_only = false;      // use only the sign of the estimated slope
  bool paper = false;          // the paper's conventions
  std::string rate_exponent = "";
  std::string gradient_bits = "";
  std::int64_t reach = -1;       // of the noise, in units of a weight; negative: recipe's
  std::int64_t zo_layers = -1;   // first layers that train zeroth-order; negative: recipe's
  std::int64_t logit_gain = -1;  // log2 of the factor on initial logits; negative: recipe's
  std::int64_t micro_batch = 32;
  std::string kernel = "auto";
  int8::Threads threads = {};
};

/// How a run trains in integers.
struct Int8Options {
  int8::StepOptions step = {};  // what stays the same in every step
  int8::Recipe recipe = {};     // what changes with them
  std::int64_t total_steps = 0;

  /// The options of the step after `done_steps`.
  int8::StepOptions at(std::uint64_t done_steps) const {
    return int8::with_recipe(step, recipe, static_cast<std::int64_t>(done_steps), total_steps);
  }
};

Int8Options int8_options(const Int8Settings& settings, const int8::Network& network,
                         std::int64_t total_steps);

/// Shape of the data a network is made for.
struct Int8Shape {
  std::int64_t channels = 0;
  std::int64_t image_size = 0;  // 0 for points
  std::int64_t points = 0;      // 0 for images
  std::int64_t classes = 0;
};

/// "lenet5" or "pointnet-plain"; `width` 0: its own. Throws UsageError for a name without an
/// integer form.
int8::Network int8_network(const std::string& model, std::int64_t width, const Int8Shape& shape);

/// What a value may be.
struct ScheduleRange {
  std::int32_t lowest = 0;
  std::int32_t highest = 0;
};

/// "4" or "3-6" as a step schedule; "" is `fallback`. Throws UsageError, naming `who`, for what is
/// neither or leaves the range.
int8::StepSchedule int8_schedule(std::string_view written, int8::StepSchedule fallback,
                                 ScheduleRange range, std::string_view who);

/// The two schedules of Int8Settings: throws UsageError where they cannot be read.
void check_int8_schedules(std::string_view rate_exponent, std::string_view gradient_bits);

/// Sums of losses in 2^-16 bit to nats.
double int8_nats(std::int64_t loss);

/// Steps on the CPU: their working memory and the batch under way.
class Int8CpuSteps {
 public:
  int8::StepReport train(int8::State& state, const Int8Reader& from,
                         std::span<const std::int64_t> ids, const int8::StepOptions& now);

  /// In parts of `batch` samples, which need no more memory than a step; `alive` after each.
  int8::Evaluation evaluate(const int8::State& state, const Int8Reader& from,
                            std::span<const std::int64_t> ids, std::int64_t batch,
                            const int8::StepOptions& options,
                            const std::function<void()>& alive = {});

  std::int64_t arena_bytes() const { return arena_.high_water(); }
  std::int64_t batch_bytes() const { return batch_.bytes(); }

 private:
  int8::Arena arena_;
  Int8Batch batch_;
};

}  // namespace triaccel
