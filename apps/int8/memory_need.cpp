#include "apps/int8/memory_need.h"

#include <unistd.h>

#include <algorithm>
#include <thread>

#include "triaccel/base/byte_size.h"
#include "triaccel/base/error.h"
#include "triaccel/int8/training/step_memory.h"

namespace triaccel::int8_program {
namespace {

constexpr std::int64_t kKiB = 1024;
// Measured, with a margin of about a megabyte: what is resident before anything is read, and partly
// used pages.
constexpr std::int64_t kProgramBytes = 2816 * kKiB;
constexpr std::int64_t kPartlyUsedPages = 48;
constexpr std::int64_t kThreadBytes = 64 * kKiB;   // used part of a stack
constexpr std::int64_t kSavingBytes = 256 * kKiB;  // headers and buffers of files
constexpr std::int32_t kMicroBatch = 32;

Int8Settings settings_for(const RunOptions& run, std::int32_t threads, std::int32_t micro_batch) {
  return {.bp_layers = run.bp_layers,
          .clean_pass = run.clean_pass,
          .freeze = run.freeze,
          .sign_only = run.sign,
          .paper = run.conventions == "paper",
          .zo_layers = run.zo_layers,
          .micro_batch = micro_batch,
          .threads = {.count = threads}};
}

MemoryNeed need_of(const RunOptions& run, const SampleFiles& data, const int8::Network& network,
                   bool training, const MemoryNeed& with) {
  const int8::StepOptions step =
      int8_options(settings_for(run, with.threads, with.micro_batch), network, 1).step;
  const auto batch = static_cast<std::int32_t>(run.batch);
  const int8::StepMemory memory = training ? int8::step_memory(network, batch, step)
                                           : int8::evaluation_memory(network, batch, step);
  const std::int64_t inputs = data.train->reader.inputs;
  MemoryNeed need = with;
  need.weights = memory.weights;
  need.step = memory.arena();
  need.samples = data.bytes() + run.batch * (inputs + 4);
  // Twice for training: all samples, and their order in this epoch.
  need.order = 8 * (data.test->count() + (training ? 2 * data.train->count() : 0));
  const std::int64_t kept = std::max<std::int64_t>(1, data.train->count() - run.val_split);
  const std::int64_t used = run.train_samples > 0 ? std::min(kept, run.train_samples) : kept;
  const std::int64_t steps = training ? steps_in_run(run.extent(), used) : 0;
  need.saving = 3 * memory.weights + 3 * steps + kSavingBytes;
  need.program =
      kProgramBytes + kPartlyUsedPages * ::sysconf(_SC_PAGESIZE) + with.threads * kThreadBytes;
  return need;
}

std::int64_t machine_bytes() {
  return std::int64_t{::sysconf(_SC_PHYS_PAGES)} * ::sysconf(_SC_PAGESIZE);
}

}  // namespace

std::string need_text(const MemoryNeed& need) {
  return text(byte_text(need.total()), ": weights ", byte_text(need.weights), ", step ",
              byte_text(need.step), ", samples ", byte_text(need.samples), ", their order ",
              byte_text(need.order), ", checkpoints ", byte_text(need.saving), ", program ",
              byte_text(need.program));
}

MemoryNeed fit_budget(const RunOptions& run, const SampleFiles& data, const int8::Network& network,
                      bool training) {
  const std::int64_t budget = Budget(run.budget).bytes_on(machine_bytes());
  const auto cores = static_cast<std::int64_t>(std::thread::hardware_concurrency());
  const std::int64_t wanted =
      std::clamp<std::int64_t>(run.threads > 0 ? run.threads : cores, 1, int8::kMostWorkers);
  // With an exponent per tensor the micro-batch decides which samples share it.
  const std::int32_t smallest = run.conventions == "paper" ? kMicroBatch : 1;
  MemoryNeed need;
  // Fewer threads first: the smallest micro-batch takes several times as long.
  for (std::int32_t micro_batch = kMicroBatch; micro_batch >= smallest; micro_batch /= 2) {
    for (auto threads = static_cast<std::int32_t>(wanted); threads >= 1; threads /= 2) {
      need =
          need_of(run, data, network, training, {.threads = threads, .micro_batch = micro_batch});
      if (budget == 0 || need.total() <= budget) return need;
    }
  }
  throw OutOfMemory(text("[--budget] ", byte_text(budget),
                         " do not suffice; the least that does is ", need.total(), " bytes (",
                         need_text(need), "); use --budget ", need.total(),
                         ", or fewer --epochs or --train-samples, or a smaller --width"));
}

}  // namespace triaccel::int8_program
