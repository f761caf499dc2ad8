#include "bench/papers/baseline_codecs/three_pass_codec.h"

#include <cstring>

#include "bench/papers/baseline_codecs/three_pass_codec_math.h"

namespace triaccel::kernels::cpu {
namespace {

/// Below so many groups another thread costs more than it saves.
constexpr std::int64_t kGroupsAlone = 64;

}  // namespace

void encode_plain_groups(const PlainGroupCoding& coding, const void* values, void* codes,
                         std::int32_t* not_finite) {
  if (coding.count == 0) return;
  const PlainGroups layout(coding);
  const std::int64_t code_bytes = kGroupElements * coding.bits / 8;
  auto* bytes = static_cast<std::uint8_t*>(codes);
  std::int64_t damaged = 0;
  with_stored_type(coding.type, [&]<typename Stored>(Stored) {
    const auto* from = static_cast<const typename Stored::Word*>(values);
#pragma omp parallel for schedule(static) reduction(+ : damaged) if (layout.groups > kGroupsAlone)
    for (std::int64_t group = 0; group < layout.groups; ++group) {
      const PlainGroups::Range elements = layout.range(group);
      PlainExtremes found = PlainExtremes::of_none();
      for (std::int64_t i = elements.begin; i < elements.end; ++i)
        found.add(Stored::value(from[i]));
      const PlainRange range = plain_range(found, coding.bits);
      damaged += range.low != range.low;
      const std::uint32_t stored = stored_plain_range(range);
      std::memcpy(bytes + layout.groups * code_bytes + group * 4, &stored, 4);
      std::uint8_t packed[kGroupElements] = {};
      for (std::int64_t i = elements.begin; i < elements.end; ++i) {
        const std::int64_t place = (i - elements.begin) * coding.bits;
        const std::uint32_t code =
            plain_code(Stored::value(from[i]), range, coding.bits, coding.key,
                       group * kGroupElements + i - elements.begin);
        packed[place / 8] = static_cast<std::uint8_t>(packed[place / 8] | code << place % 8);
      }
      std::memcpy(bytes + group * code_bytes, packed, static_cast<std::size_t>(code_bytes));
    }
  });
  if (not_finite != nullptr) *not_finite += static_cast<std::int32_t>(damaged);
}

void decode_plain_groups(const PlainGroupCoding& coding, const void* codes, void* values) {
  if (coding.count == 0) return;
  const PlainGroups layout(coding);
  const std::int64_t code_bytes = kGroupElements * coding.bits / 8;
  const auto* bytes = static_cast<const std::uint8_t*>(codes);
  const std::uint32_t mask = (1u << coding.bits) - 1;
  with_stored_type(coding.type, [&]<typename Stored>(Stored) {
    auto* to = static_cast<typename Stored::Word*>(values);
#pragma omp parallel for schedule(static) if (layout.groups > kGroupsAlone)
    for (std::int64_t group = 0; group < layout.groups; ++group) {
      std::uint32_t stored = 0;
      std::memcpy(&stored, bytes + layout.groups * code_bytes + group * 4, 4);
      const PlainRange range = read_plain_range(stored);
      const PlainGroups::Range elements = layout.range(group);
      for (std::int64_t i = elements.begin; i < elements.end; ++i) {
        const std::int64_t place = (i - elements.begin) * coding.bits;
        const std::uint32_t code = bytes[group * code_bytes + place / 8] >> place % 8 & mask;
        to[i] = Stored::word(plain_value(code, range));
      }
    }
  });
}

}  // namespace triaccel::kernels::cpu
