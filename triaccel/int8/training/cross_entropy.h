#pragma once

// Cross-entropy of integer logits a_j · 2^exponent, in units of 2^-16 bit ("Q16"), from two tables:
// no division, no float. All passes use the same unit, so their losses can be compared and summed.

#include <cstdint>

#include "triaccel/base/host_device.h"
#include "triaccel/int8/fixed_point.h"
#include "triaccel/int8/training/random_stream.h"

namespace triaccel::int8 {

/// Constants of the integer cross-entropy. A value, so that device code can have a copy.
struct LossTables {
  std::uint32_t exp2[257];  // 2^30 · 2^(-i/256), rounded
  std::int32_t log2[257];   // 2^24 · log2(1 + i/256), rounded
};

// clang-format off
inline constexpr LossTables kLossTables = {
    {
        1073741824u, 1070838486u, 1067942999u, 1065055341u, 1062175491u, 1059303428u, 1056439131u, 1053582579u,
        1050733751u, 1047892626u, 1045059183u, 1042233401u, 1039415261u, 1036604740u, 1033801819u, 1031006477u,
        1028218693u, 1025438448u, 1022665720u, 1019900489u, 1017142735u, 1014392438u, 1011649578u, 1008914134u,
        1006186087u, 1003465416u, 1000752102u, 998046124u, 995347464u, 992656100u, 989972014u, 987295185u,
        984625594u, 981963222u, 979308048u, 976660054u, 974019220u, 971385527u, 968758955u, 966139485u,
        963527098u, 960921775u, 958323496u, 955732243u, 953147997u, 950570738u, 948000448u, 945437108u,
        942880699u, 940331203u, 937788600u, 935252872u, 932724001u, 930201967u, 927686753u, 925178340u,
        922676710u, 920181844u, 917693724u, 915212331u, 912737649u, 910269657u, 907808339u, 905353676u,
        902905651u, 900464244u, 898029440u, 895601218u, 893179563u, 890764456u, 888355878u, 885953814u,
        883558244u, 881169153u, 878786521u, 876410331u, 874040567u, 871677210u, 869320244u, 866969651u,
        864625413u, 862287515u, 859955938u, 857630665u, 855311680u, 852998965u, 850692504u, 848392279u,
        846098274u, 843810471u, 841528855u, 839253408u, 836984114u, 834720956u, 832463917u, 830212982u,
        827968132u, 825729353u, 823496627u, 821269938u, 819049271u, 816834607u, 814625932u, 812423229u,
        810226483u, 808035676u, 805850792u, 803671817u, 801498734u, 799331526u, 797170178u, 795014675u,
        792865000u, 790721137u, 788583072u, 786450787u, 784324269u, 782203500u, 780088465u, 777979150u,
        775875538u, 773777614u, 771685363u, 769598769u, 767517817u, 765442492u, 763372778u, 761308661u,
        759250125u, 757197155u, 755149737u, 753107854u, 751071493u, 749040637u, 747015274u, 744995386u,
        742980960u, 740971982u, 738968435u, 736970306u, 734977579u, 732990241u, 731008277u, 729031671u,
        727060411u, 725094480u, 723133865u, 721178552u, 719228525u, 717283772u, 715344277u, 713410026u,
        711481005u, 709557200u, 707638598u, 705725183u, 703816941u, 701913860u, 700015924u, 698123120u,
        696235434u, 694352853u, 692475362u, 690602947u, 688735596u, 686873293u, 685016026u, 683163781u,
        681316545u, 679474303u, 677637043u, 675804750u, 673977412u, 672155015u, 670337545u, 668524990u,
        666717336u, 664914570u, 663116678u, 661323648u, 659535466u, 657752119u, 655973594u, 654199878u,
        652430958u, 650666822u, 648907455u, 647152846u, 645402981u, 643657847u, 641917433u, 640181724u,
        638450708u, 636724373u, 635002706u, 633285695u, 631573326u, 629865587u, 628162466u, 626463950u,
        624770026u, 623080683u, 621395908u, 619715688u, 618040012u, 616368866u, 614702239u, 613040119u,
        611382493u, 609729349u, 608080675u, 606436459u, 604796689u, 603161352u, 601530438u, 599903933u,
        598281827u, 596664106u, 595050760u, 593441776u, 591837143u, 590236848u, 588640881u, 587049229u,
        585461881u, 583878825u, 582300049u, 580725543u, 579155293u, 577589290u, 576027521u, 574469975u,
        572916640u, 571367506u, 569822560u, 568281792u, 566745190u, 565212742u, 563684439u, 562160268u,
        560640218u, 559124278u, 557612438u, 556104685u, 554601009u, 553101399u, 551605844u, 550114332u,
        548626854u, 547143398u, 545663953u, 544188508u, 542717053u, 541249576u, 539786068u, 538326517u,
        536870912u,
    },
    {
        0, 94364, 188362, 281996, 375270, 468185, 560745, 652952, 744810, 836320,
        927485, 1018309, 1108793, 1198939, 1288752, 1378232, 1467383, 1556207, 1644705, 1732882,
        1820738, 1908277, 1995500, 2082410, 2169009, 2255299, 2341283, 2426963, 2512340, 2597417,
        2682196, 2766679, 2850868, 2934766, 3018374, 3101694, 3184728, 3267478, 3349946, 3432134,
        3514044, 3595678, 3677038, 3758124, 3838941, 3919488, 3999768, 4079782, 4159533, 4239023,
        4318251, 4397222, 4475935, 4554394, 4632599, 4710552, 4788255, 4865709, 4942916, 5019878,
        5096595, 5173071, 5249305, 5325300, 5401057, 5476578, 5551864, 5626916, 5701737, 5776327,
        5850688, 5924821, 5998727, 6072409, 6145867, 6219103, 6292118, 6364913, 6437490, 6509850,
        6581994, 6653924, 6725641, 6797146, 6868440, 6939525, 7010402, 7081072, 7151536, 7221795,
        7291852, 7361706, 7431359, 7500812, 7570066, 7639123, 7707984, 7776649, 7845119, 7913397,
        7981483, 8049377, 8117082, 8184598, 8251926, 8319067, 8386022, 8452793, 8519380, 8585785,
        8652008, 8718050, 8783912, 8849596, 8915102, 8980431, 9045584, 9110562, 9175366, 9239998,
        9304457, 9368745, 9432863, 9496811, 9560591, 9624203, 9687648, 9750928, 9814042, 9876993,
        9939780, 10002404, 10064867, 10127170, 10189312, 10251295, 10313120, 10374787, 10436298, 10497652,
        10558852, 10619897, 10680789, 10741528, 10802114, 10862550, 10922835, 10982970, 11042956, 11102794,
        11162484, 11222028, 11281425, 11340677, 11399784, 11458748, 11517568, 11576245, 11634780, 11693175,
        11751428, 11809542, 11867517, 11925353, 11983051, 12040612, 12098037, 12155325, 12212479, 12269497,
        12326382, 12383133, 12439752, 12496238, 12552593, 12608817, 12664911, 12720875, 12776710, 12832416,
        12887994, 12943445, 12998770, 13053968, 13109041, 13163988, 13218811, 13273511, 13328087, 13382540,
        13436871, 13491080, 13545168, 13599135, 13652983, 13706711, 13760320, 13813810, 13867183, 13920438,
        13973576, 14026597, 14079503, 14132294, 14184969, 14237530, 14289978, 14342312, 14394532, 14446641,
        14498638, 14550523, 14602297, 14653961, 14705514, 14756958, 14808293, 14859519, 14910637, 14961648,
        15012551, 15063347, 15114037, 15164621, 15215099, 15265473, 15315742, 15365906, 15415967, 15465925,
        15515779, 15565531, 15615181, 15664730, 15714177, 15763523, 15812769, 15861915, 15910962, 15959909,
        16008758, 16057508, 16106160, 16154714, 16203172, 16251532, 16299796, 16347964, 16396036, 16444013,
        16491896, 16539683, 16587377, 16634976, 16682482, 16729896, 16777216,
    }};
// clang-format on

/// Maximum error of one loss, in units of 2^-16 bit (up to 4096 classes): logits rounded to Q16
/// contribute 2 · 1/2, the final rounding 1/2, the tables 0.3, dropped bits of the exponentials
/// 0.4; plus 2^-32 of the loss, the error of log2(e). If the exact losses of two passes over a
/// batch of B differ by more than 2 B times this, the computed difference has the same sign.
inline constexpr std::int64_t kLossError = 3;

/// Logits are clamped to this many Q16 bits and losses to kLargestLoss, so that 2^27 of them sum in
/// int64.
inline constexpr std::int64_t kLargestLogit = std::int64_t{1} << 46;
inline constexpr std::int64_t kLargestLoss = std::int64_t{1} << 36;

/// a · 2^exponent · log2(e) in Q16.
TRIACCEL_HOST_DEVICE inline std::int64_t logit_bits(std::int32_t a, std::int32_t exponent) {
  constexpr std::int64_t kLog2E = 1549082005;  // log2(e) · 2^30
  const std::int64_t product = a * kLog2E;     // below 2^62
  const std::int32_t right = 14 - exponent;
  std::int64_t bits = product;
  if (right > 62) return 0;
  if (right > 0) {
    bits = (product + (std::int64_t{1} << (right - 1))) >> right;
  } else if (right < 0) {
    const std::int32_t left = -right < 47 ? -right : 47;
    const std::int64_t most = kLargestLogit >> left;
    if (product > most) return kLargestLogit;
    if (product < -most) return -kLargestLogit;
    bits = product * (std::int64_t{1} << left);
  }
  if (bits > kLargestLogit) return kLargestLogit;
  return bits < -kLargestLogit ? -kLargestLogit : bits;
}

/// 2^30 · 2^(-drop / 2^16), non-increasing in `drop` >= 0.
TRIACCEL_HOST_DEVICE inline std::uint32_t exp2_falling(const LossTables& tables,
                                                       std::int64_t drop) {
  if (drop >= (std::int64_t{31} << 16)) return 0;
  const std::uint32_t d = static_cast<std::uint32_t>(drop);
  const std::uint32_t i = (d >> 8) & 0xFFu;
  const std::uint32_t upper = tables.exp2[i];
  const std::uint32_t step = ((upper - tables.exp2[i + 1]) * (d & 0xFFu)) >> 8;  // below 2^30
  return (upper - step) >> (d >> 16);
}

/// log2(sum) in Q16, non-decreasing; exact at powers of two. sum > 0.
TRIACCEL_HOST_DEVICE inline std::int64_t log2_bits(const LossTables& tables, std::uint64_t sum) {
#ifdef __CUDA_ARCH__
  const std::int32_t top = 63 - __clzll(static_cast<long long>(sum));
#else
  const std::int32_t top = 63 - __builtin_clzll(sum);
#endif
  const std::uint64_t mantissa = sum << (63 - top);
  const std::uint32_t i = static_cast<std::uint32_t>(mantissa >> 55) & 0xFFu;
  const std::int64_t between = static_cast<std::int64_t>((mantissa >> 39) & 0xFFFFu);
  const std::int64_t low = tables.log2[i];
  const std::int64_t fraction = low + (((tables.log2[i + 1] - low) * between) >> 16);
  return (std::int64_t{top} << 16) + ((fraction + 128) >> 8);
}

/// Shared by the loss and its error.
struct LogitSummary {
  std::int64_t largest = 0;  // Q16
  std::int64_t log_sum = 0;  // log2 Σ_j 2^(t_j - largest), Q16, >= 0
};

TRIACCEL_HOST_DEVICE inline LogitSummary summarise_logits(const LossTables& tables,
                                                          const std::int32_t* logits,
                                                          std::int32_t classes,
                                                          std::int32_t exponent) {
  std::int32_t top = logits[0];
  for (std::int32_t j = 1; j < classes; ++j) top = logits[j] > top ? logits[j] : top;
  const std::int64_t largest = logit_bits(top, exponent);
  std::uint64_t sum = 0;
  for (std::int32_t j = 0; j < classes; ++j)
    sum += exp2_falling(tables, largest - logit_bits(logits[j], exponent));
  return {.largest = largest, .log_sum = log2_bits(tables, sum) - (std::int64_t{30} << 16)};
}

TRIACCEL_HOST_DEVICE inline std::int64_t loss_bits(const LogitSummary& summary,
                                                   std::int32_t label_logit,
                                                   std::int32_t exponent) {
  const std::int64_t loss = summary.largest - logit_bits(label_logit, exponent) + summary.log_sum;
  return loss < kLargestLoss ? loss : kLargestLoss;
}

/// -log2 softmax(logits · 2^exponent)[label] in Q16.
TRIACCEL_HOST_DEVICE inline std::int64_t cross_entropy(const LossTables& tables,
                                                       const std::int32_t* logits,
                                                       std::int32_t classes, std::int32_t exponent,
                                                       std::int32_t label) {
  return loss_bits(summarise_logits(tables, logits, classes, exponent), logits[label], exponent);
}

/// Exponent of loss errors: a mantissa of 128 would be a probability of one.
inline constexpr std::int32_t kLossErrorExponent = -7;

/// Softmax of one class, Q11.
TRIACCEL_HOST_DEVICE inline std::int32_t class_probability(const LossTables& tables,
                                                           const LogitSummary& summary,
                                                           std::int32_t logit,
                                                           std::int32_t exponent) {
  const std::int64_t drop = summary.largest - logit_bits(logit, exponent) + summary.log_sum;
  return static_cast<std::int32_t>(exp2_falling(tables, drop > 0 ? drop : 0) >> 19);
}

/// Error of one class; `wanted` is the sum of all probabilities for the label, otherwise 0.
TRIACCEL_HOST_DEVICE inline std::int8_t class_error(std::int32_t probability, std::int32_t wanted,
                                                    std::uint32_t random) {
  return saturate8(round_stochastic(probability - wanted, 4, random));
}

/// Index of a sample's first random bits, at the start of a block.
TRIACCEL_HOST_DEVICE inline std::int64_t first_error_index(std::int64_t sample,
                                                           std::int32_t classes) {
  return sample * ((classes + 7) / 8 * 8);
}

/// softmax - onehot as mantissas. Before the stochastic rounding the errors sum to exactly zero.
/// `key` and `sample` select the random bits.
TRIACCEL_HOST_DEVICE inline void loss_error(const LossTables& tables, const LogitSummary& summary,
                                            const std::int32_t* logits, std::int32_t classes,
                                            std::int32_t exponent, std::int32_t label,
                                            std::uint64_t key, std::int64_t sample,
                                            std::int8_t* error) {
  std::int32_t sum = 0;
  for (std::int32_t j = 0; j < classes; ++j)
    sum += class_probability(tables, summary, logits[j], exponent);
  const std::int64_t first = first_error_index(sample, classes);
  RandomWords block = {};
  for (std::int32_t j = 0; j < classes; ++j) {
    if (j % 8 == 0) block = random_words(key, static_cast<std::uint64_t>((first + j) >> 3));
    const std::uint32_t random = block.words[(j >> 1) & 3] >> ((j & 1) * 16);
    const std::int32_t probability = class_probability(tables, summary, logits[j], exponent);
    error[j] = class_error(probability, j == label ? sum : 0, random);
  }
}

}  // namespace triaccel::int8
