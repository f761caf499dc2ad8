#include "triaccel/kernels/norm/batch_norm_plan.cuh"

#include "triaccel/base/divide_up.h"

namespace triaccel::kernels::cuda {
namespace {

constexpr std::int64_t kShortRows = 512;  // of a block, before a wider cluster pays
constexpr std::int64_t kMinThreads = 128;
constexpr std::int64_t kMaxRowBlocks = 256;
constexpr std::int64_t kLongBytes = 16 << 20;  // of a map
constexpr int kSumTurns = 4;  // packs a thread has at least to sum before a block pays

int largest_cluster() {
  return device_attribute("batch_norm", cudaDevAttrClusterLaunch) != 0 && code_is_for_sm_90()
             ? kMaxCluster
             : 1;
}

int element_bytes(FloatType type) { return type == FloatType::F32 ? 4 : 2; }

int pack_of(const NormMap& map, bool aligned) {
  return aligned ? static_cast<int>(mask_bits_per_byte(map)) : 1;
}

NormPlan unplanned(const NormMap& map, bool aligned) {
  NormPlan plan;
  plan.pack = pack_of(map, aligned);
  plan.rows = map.rows;
  plan.is_long = map.rows * map.channels * element_bytes(map.type) >= kLongBytes;
  plan.multiprocessors = device_attribute("batch_norm", cudaDevAttrMultiProcessorCount);
  return plan;
}

/// Two kernels: groups of whole cache lines, blocks for the whole chip.
void plan_two_kernels(NormPlan& plan, std::int64_t row_packs, int most_blocks) {
  const std::int64_t about = std::max<std::int64_t>(1, row_packs / (plan.pack > 1 ? 8 : 32));
  std::int64_t packs = divide_up(row_packs, about);
  if (about > 1) packs += packs % 2;
  plan.packs = static_cast<int>(packs);
  plan.groups = static_cast<int>(divide_up(row_packs, packs));
  const int slots = kNormSumThreads / plan.packs;
  const std::int64_t useful = divide_up(plan.rows, std::int64_t{slots} * kSumTurns);
  // Two blocks fit every multiprocessor; an eighth of the room stays free, since a cluster needs
  // its blocks' room in one part of the chip and a second wave would double the time.
  const std::int64_t room = std::max(1, 2 * plan.multiprocessors * 7 / 8 / plan.groups);
  const auto blocks = static_cast<int>(std::min({useful, room, kMaxRowBlocks}));
  plan.cluster = most_blocks;
  while (plan.cluster > 1 && blocks < 4 * plan.cluster) plan.cluster /= 2;
  plan.row_blocks = blocks / plan.cluster * plan.cluster;
}

}  // namespace

LaunchShape NormPlan::elementwise_shape(int resident) const {
  const int slots = threads / packs;
  const std::int64_t useful = divide_up(rows, std::int64_t{slots} * kSumTurns);
  const std::int64_t most = std::max(1, resident * multiprocessors / groups);
  return {.grid = {unsigned(std::min(useful, most)), unsigned(groups)},
          .threads = unsigned(threads),
          .overlaps = !is_long};
}

NormPlan plan_norm(const NormMap& map, bool aligned) {
  NormPlan plan = unplanned(map, aligned);
  plan_two_kernels(plan, map.channels / plan.pack, largest_cluster());
  return plan;
}

std::optional<ResidentNormPlan> plan_resident_norm(const NormMap& map, bool aligned,
                                                   std::int64_t most_bytes) {
  const int pack = pack_of(map, aligned);
  constexpr std::int64_t most_groups = 65535;  // of a grid's second dimension
  if (pack == 1 || map.channels / pack > most_groups ||
      map.rows * map.channels * element_bytes(map.type) > most_bytes)
    return std::nullopt;
  ResidentNormPlan plan;
  const int most_blocks = largest_cluster();
  while (plan.blocks < most_blocks && map.rows > plan.blocks * kShortRows) plan.blocks *= 2;
  const std::int64_t block_rows = divide_up(map.rows, plan.blocks);
  if (block_rows > kMaxTurns * kResidentThreads) return std::nullopt;
  plan.groups = static_cast<int>(map.channels / pack);
  plan.block_rows = static_cast<int>(block_rows);
  plan.threads = static_cast<int>(std::clamp<std::int64_t>(
      round_up(divide_up(block_rows, kFewTurns), 32), kMinThreads, kResidentThreads));
  plan.turns = static_cast<int>(divide_up(block_rows, plan.threads));
  return plan;
}

NormPlan plan_elementwise_norm(const NormMap& map, bool aligned) {
  NormPlan plan = unplanned(map, aligned);
  plan_two_kernels(plan, map.channels / plan.pack, 1);
  return plan;
}

std::int64_t batch_norm_scratch_bytes(const NormMap& map) {
  std::int64_t parts = 0;
  for (const bool aligned : {false, true}) {
    const NormPlan plan = plan_norm(map, aligned);
    parts = std::max<std::int64_t>(parts, plan.parts());
  }
  return parts * (2 * map.channels + 1) * static_cast<std::int64_t>(sizeof(float));
}

}  // namespace triaccel::kernels::cuda
