#include "triaccel/kernels/loss_data/cross_entropy.h"

#include <algorithm>

#include "triaccel/base/divide_up.h"
#include "triaccel/kernels/loss_data/cross_entropy_math.h"

namespace triaccel::kernels {

std::int64_t cross_entropy_parts(std::int64_t rows, std::int64_t classes) {
  const std::int64_t rows_of_a_part = classes <= kClassesOfAThread ? kShortRowsOfABlock
                                      : classes <= kClassesOfAWarp ? kRowsOfABlock
                                                                   : 1;
  return std::clamp(divide_up(rows, rows_of_a_part), std::int64_t{1}, kMaxParts);
}

namespace cpu {
namespace {

constexpr int kLanes = 16;  // independent maxima and sums side by side: compilers vectorise these,
                            // but not a maximum of floats by itself

/// Exponentials summed in FP32 before FP64 takes over: 50,000 would lose five bits.
constexpr std::int64_t kSummedInFp32 = 512;

/// In loops that vectorise, instead of add_logit() for one element after the other.
template <typename Stored>
RowSums sums_of(const typename Stored::Word* row, std::int64_t classes) {
  RowSums sums = no_sums();
  float maxima[kLanes];
  std::fill_n(maxima, kLanes, sums.shift);
  float totals[kLanes] = {};
  const auto add = [&](int lane, std::int64_t k) {
    const float x = Stored::value(row[k]);
    maxima[lane] = x > maxima[lane] ? x : maxima[lane];
    totals[lane] += x;
  };
  std::int64_t done = 0;
  for (; done + kLanes <= classes; done += kLanes) {
#pragma omp simd
    for (int lane = 0; lane < kLanes; ++lane) add(lane, done + lane);
  }
  for (int lane = 0; done < classes; ++done, ++lane) add(lane, done);
  const float largest = *std::max_element(maxima, maxima + kLanes);
  double exponentials = 0;
  for (std::int64_t begin = 0; begin < classes; begin += kSummedInFp32) {
    const std::int64_t end = std::min(begin + kSummedInFp32, classes);
    float part = 0;
#pragma omp simd reduction(+ : part)
    for (std::int64_t k = begin; k < end; ++k)
      part += exp_of_negative(Stored::value(row[k]) - largest);
    exponentials += double{part};
  }
  sums.shift = largest;
  sums.exponentials = static_cast<float>(exponentials);
  for (const float total : totals) sums.logits += total;
  std::int64_t first = 0;
  while (first < classes && !(Stored::value(row[first]) >= largest)) ++first;
  if (first < classes)
    sums.best = {largest, first};
  else  // nothing but infinities below zero and NaNs
    for (std::int64_t k = 0; k < classes; ++k)
      sums.best = better(sums.best, {Stored::value(row[k]), k});
  return sums;
}

template <typename Stored>
void write_gradient(const typename Stored::Word* __restrict row, std::int64_t classes,
                    std::int64_t label, const RowGradient& params,
                    typename Stored::Word* __restrict gradient) {
  const RowGradient g = params;
#pragma omp simd
  for (std::int64_t k = 0; k < classes; ++k)
    gradient[k] = Stored::word(gradient_of(Stored::value(row[k]), false, g));
  if (label >= 0 && label < classes)
    gradient[label] = Stored::word(gradient_of(Stored::value(row[label]), true, g));
}

template <typename Stored>
void add_row(const ClassifiedBatch& batch, std::int64_t r, PartialScore& part) {
  using Word = typename Stored::Word;
  const Word* row = static_cast<const Word*>(batch.logits) + r * batch.classes;
  const std::int64_t label = batch.labels[r];
  const bool valid = label >= 0 && label < batch.classes;
  const RowSums sums = sums_of<Stored>(row, batch.classes);
  add_part(part, row_score(batch, sums, label, valid ? Stored::value(row[label]) : 0.0f));
  if (batch.gradient != nullptr)
    write_gradient<Stored>(row, batch.classes, label,
                           row_gradient(batch_gradient(batch), loss_scale_of(batch), sums, valid),
                           static_cast<Word*>(batch.gradient) + r * batch.classes);
}

}  // namespace

void cross_entropy(RunningScore* score, const ClassifiedBatch& batch, PartialScore* parts) {
  const std::int64_t count = cross_entropy_parts(batch.rows, batch.classes);
  with_stored_type(batch.type, [&]<typename Stored>(Stored) {
#pragma omp parallel for schedule(static) if (batch.rows * batch.classes > kChunk)
    for (std::int64_t i = 0; i < count; ++i) {
      parts[i] = {};
      for (std::int64_t r = i; r < batch.rows; r += count) add_row<Stored>(batch, r, parts[i]);
    }
  });
  PartialScore all;
  for (std::int64_t i = 0; i < count; ++i) add_part(all, parts[i]);
  add_batch(*score, all, batch);
}

void measured_loss(RunningScore* score, const MeasuredLoss& loss, PartialScore* parts) {
  add_measured(*score, loss, parts);
}

}  // namespace cpu
}  // namespace triaccel::kernels
