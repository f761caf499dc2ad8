#include "triaccel/policies/compression/codec_rules.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/core/byte_codec.h"
#include "tests/policies/compression/saved_network.h"
#include "triaccel/base/error.h"
#include "triaccel/core/saved_bytes.h"
#include "triaccel/policies/compression/band_table.h"
#include "triaccel/policies/compression/predicted_error.h"
#include "triaccel/policies/compression/rate_curve.h"
#include "triaccel/policies/compression/saved_planner.h"
#include "triaccel/policies/memory/held_bytes.h"

namespace triaccel {
namespace {

constexpr std::int64_t kCodedSamples = 64;

std::int64_t bytes_of(const SavedStatistics& tensor, const SavedPlan& plan) {
  return HeldBytes(tensor, kCodedSamples).under(plan);
}

TEST(LosslessPlan, KeepsOnlyWhatBackwardReads) {
  const auto codec_of = [](SavedClass kind) {
    return lossless_plan(saved_tensor(kind, 8, 8)).codec;
  };
  EXPECT_EQ(codec_of(SavedClass::Sizes), SavedCodec::Shape);
  EXPECT_EQ(codec_of(SavedClass::Sign), SavedCodec::Mask);
  EXPECT_EQ(codec_of(SavedClass::Window), SavedCodec::Window);
  for (const SavedClass kind : {SavedClass::Constant, SavedClass::Positive, SavedClass::NormInput,
                                SavedClass::Factor, SavedClass::Nonlinear, SavedClass::Attention,
                                SavedClass::Statistics, SavedClass::Vector, SavedClass::Other})
    EXPECT_EQ(codec_of(kind), SavedCodec::Raw) << name_of(kind);
  SavedStatistics window = saved_tensor(SavedClass::Window, 8, 8);
  for (const std::int64_t taps : {0, 257}) {
    window.window_taps = taps;
    EXPECT_EQ(lossless_plan(window).codec, SavedCodec::Raw) << taps;
  }
}

TEST(OffloadPlans, HaveHostMemoryForWhatLosslessPlansLeaveRaw) {
  std::vector<SavedStatistics> tensors;
  for (const SavedClass kind : {SavedClass::Sizes, SavedClass::Sign, SavedClass::Window,
                                SavedClass::Constant, SavedClass::NormInput, SavedClass::Other})
    tensors.push_back(saved_tensor(kind, 8, 8));
  const std::vector<SavedPlan> plans = offload_plans(tensors);
  std::vector<SavedCodec> codecs;
  for (const SavedPlan& plan : plans) {
    EXPECT_FALSE(is_lossy(plan.codec));
    codecs.push_back(plan.codec);
  }
  EXPECT_EQ(codecs, (std::vector{SavedCodec::Shape, SavedCodec::Mask, SavedCodec::Window,
                                 SavedCodec::Raw, SavedCodec::Host, SavedCodec::Host}));
}

TEST(OffloadPlans, MoveAShareOfTheBytesFromTheFirstTensorOn) {
  const std::vector<SavedStatistics> tensors = {
      saved_tensor(SavedClass::NormInput, 8, 8), saved_tensor(SavedClass::Sign, 8, 8),
      saved_tensor(SavedClass::Other, 8, 8), saved_tensor(SavedClass::NormInput, 16, 8)};
  const auto moved = [&](double share) {
    std::string codecs;
    for (const SavedPlan& plan : offload_plans(tensors, share)) {
      EXPECT_FALSE(is_lossy(plan.codec));
      codecs += plan.codec == SavedCodec::Host ? 'h' : plan.codec == SavedCodec::Raw ? 'r' : 'm';
    }
    return codecs;
  };
  EXPECT_EQ(moved(0), "rmrr");
  EXPECT_EQ(moved(0.25), "hmrr");
  EXPECT_EQ(moved(0.5), "hmhr");
  EXPECT_EQ(moved(0.51), "hmhh");
  EXPECT_EQ(moved(1), "hmhh");
}

TEST(HeldBytes, AreNoneOfTheDeviceForALargeTensorInHostMemory) {
  const SavedPlan host{.codec = SavedCodec::Host};
  SavedStatistics norm = saved_tensor(SavedClass::NormInput, 16, 16);
  const std::int64_t fits = kLeastHostBytes / norm.raw_bytes(1);
  EXPECT_EQ(HeldBytes(norm, fits - 1).under(host), norm.raw_bytes(fits - 1));
  EXPECT_EQ(HeldBytes(norm, fits).under(host), 0);
  norm.mask_too = true;
  EXPECT_EQ(HeldBytes(norm, fits).under(host), mask_bytes(norm.elements(fits)));
}

TEST(CanCompress, LeavesSmallTensorsAndWholeNumbersAlone) {
  SavedStatistics tensor = saved_tensor(SavedClass::Factor, 16, 1);
  EXPECT_TRUE(can_compress(tensor, 64));
  EXPECT_FALSE(can_compress(tensor, 63));
  tensor.type = ElementType::I64;
  EXPECT_FALSE(can_compress(tensor, 64));
  EXPECT_FALSE(can_compress(saved_tensor(SavedClass::Vector, 16, 16), 64));
}

TEST(UniformPlans, CompressWhatCanBeCompressedAlike) {
  const std::vector<SavedStatistics> tensors = {saved_tensor(SavedClass::Sign, 8, 8),
                                                saved_tensor(SavedClass::Positive, 8, 8),
                                                saved_tensor(SavedClass::Vector, 8, 8)};
  const SavedPlan registered{.codec = SavedCodec::Registered, .registered = byte_codec()};
  EXPECT_EQ(uniform_plans(tensors, registered, kCodedSamples),
            (std::vector<SavedPlan>{{.codec = SavedCodec::Mask}, registered, {}}));
}

TEST(HeldBytes, AreThoseOfTheFormats) {
  SavedStatistics norm = saved_tensor(SavedClass::NormInput, 20, 15);
  const std::int64_t elements = norm.elements(kCodedSamples);
  EXPECT_EQ(bytes_of(norm, {}), 4 * elements);
  EXPECT_EQ(bytes_of(norm, {.codec = SavedCodec::Shape}), 0);
  EXPECT_EQ(bytes_of(norm, {.codec = SavedCodec::Mask}), mask_bytes(elements));
  EXPECT_EQ(bytes_of(norm, {.codec = SavedCodec::Window}), window_bytes(elements, 9));
  EXPECT_EQ(bytes_of(norm, {.codec = SavedCodec::Groups, .eighths = 19}),
            group_bytes(elements, 19));
  EXPECT_EQ(bytes_of(norm, {.codec = SavedCodec::NonZeros, .eighths = 19}),
            nonzero_bytes(elements, 19) + mask_bytes(elements));
  EXPECT_EQ(bytes_of(norm, {.codec = SavedCodec::Derived}), 0);
  EXPECT_EQ(bytes_of(norm, {.codec = SavedCodec::Registered, .registered = byte_codec()}),
            elements);
  norm.derivation = Derivation::Rectified;
  EXPECT_EQ(bytes_of(norm, {.codec = SavedCodec::Derived}), mask_bytes(elements));
  norm.mask_elsewhere = true;
  EXPECT_EQ(bytes_of(norm, {.codec = SavedCodec::Derived}), 0);
  EXPECT_EQ(bytes_of(norm, {.codec = SavedCodec::NonZeros, .eighths = 19}),
            nonzero_bytes(elements, 19));
  norm.kind = SavedClass::Constant;
  EXPECT_EQ(bytes_of(norm, {}), 0);
}

SavedStatistics small_norm_input(std::int64_t channels, std::int64_t side) {
  return {.kind = SavedClass::NormInput, .sizes = {1, channels, side, side}};
}

TEST(GroupCodec, LevelsSmallMapsBeforeANormWithEnoughSamples) {
  EXPECT_EQ(group_codec_of(small_norm_input(64, 1), 32), SavedCodec::Levelled);
  EXPECT_EQ(group_codec_of(small_norm_input(64, 1), 31), SavedCodec::Groups);
  EXPECT_EQ(group_codec_of(small_norm_input(64, 2), 8), SavedCodec::Levelled);
  EXPECT_EQ(group_codec_of(small_norm_input(64, 4), 64), SavedCodec::Groups)
      << "a transform quantizes channels separately";
  SavedStatistics other = small_norm_input(64, 1);
  other.kind = SavedClass::Factor;
  EXPECT_EQ(group_codec_of(other, 64), SavedCodec::Groups);
  other = small_norm_input(64, 1);
  other.sizes = {1, 197, 64};
  EXPECT_EQ(group_codec_of(other, 64), SavedCodec::Groups);
}

SavedStatistics layer_norm_input(std::int64_t tokens, std::int64_t columns) {
  return {.kind = SavedClass::NormInput, .sizes = {1, tokens, columns}, .by_rows = true};
}

TEST(GroupCodec, LevelsTheRowsBeforeALayerNorm) {
  EXPECT_EQ(group_codec_of(layer_norm_input(197, 32), 1), SavedCodec::LevelledRows);
  EXPECT_EQ(group_codec_of(layer_norm_input(197, 31), 64), SavedCodec::Groups) << "of few elements";
  SavedStatistics maps = layer_norm_input(7, 64);
  maps.sizes = {1, 7, 7, 64};
  EXPECT_EQ(group_codec_of(maps, 2), SavedCodec::LevelledRows);
}

TEST(RateCurve, LevelsTheChannelsOfSmallMapsBeforeANorm) {
  SavedStatistics tensor = small_norm_input(512, 1);
  const SavedPlan levelled{.codec = SavedCodec::Levelled, .eighths = 24};
  EXPECT_EQ(bytes_of(tensor, levelled), group_bytes(512 * kCodedSamples, 24) + 8 * 512);
  const auto codec_of_three_bits = [&] {
    const RateCurve curve(tensor, kCodedSamples, {}, {});
    for (const RatePoint& point : curve.points())
      if (point.plan.eighths == 24) return point.plan.codec;
    return SavedCodec::Raw;
  };
  EXPECT_EQ(codec_of_three_bits(), SavedCodec::Levelled);
  tensor.kind = SavedClass::Factor;
  EXPECT_EQ(codec_of_three_bits(), SavedCodec::Groups);
  tensor.kind = SavedClass::NormInput;
  const std::vector<SavedPlan> plans = {levelled};
  EXPECT_DOUBLE_EQ(predicted_errors(std::vector{tensor}, plans, 16)[0], 32 * quantization_error(3));
  tensor.levelled_squared_range = 40;
  EXPECT_DOUBLE_EQ(predicted_errors(std::vector{tensor}, plans, 16)[0], 40 * quantization_error(3));
  const std::vector<SavedPlan> groups = {{.codec = SavedCodec::Groups, .eighths = 24}};
  tensor.unevenness = 50;
  EXPECT_DOUBLE_EQ(predicted_errors(std::vector{tensor}, groups, 16)[0],
                   50 * 32 * quantization_error(3));
}

TEST(RateCurve, LevelsRowsThatDifferBeforeALayerNorm) {
  SavedStatistics tensor = layer_norm_input(197, 384);
  EXPECT_EQ(bytes_of(tensor, {.codec = SavedCodec::LevelledRows, .eighths = 24}),
            group_bytes(197 * 384 * kCodedSamples, 24) + 8 * 197 * kCodedSamples);
  const auto codec_of_three_bits = [&] {
    const RateCurve curve(tensor, kCodedSamples, {}, {});
    for (const RatePoint& point : curve.points())
      if (point.plan.eighths == 24) return point.plan.codec;
    return SavedCodec::Raw;
  };
  tensor.unevenness = 100;  // one row hardly varies
  EXPECT_EQ(codec_of_three_bits(), SavedCodec::LevelledRows);
  // Blocks span rows, too.
  const std::vector<SavedPlan> blocks = {
      {.codec = SavedCodec::Frequency, .block = 8, .band_eighths = {32, 32, 32, 32, 32}}};
  tensor.transforms[1] = falling_bands(8, 0.5);
  const double uneven = predicted_errors(std::vector{tensor}, blocks, 16)[0];
  tensor.unevenness = 1;
  EXPECT_DOUBLE_EQ(uneven, 100 * predicted_errors(std::vector{tensor}, blocks, 16)[0]);
  tensor.transforms[1] = {};
  EXPECT_EQ(codec_of_three_bits(), SavedCodec::Groups) << "levels are not worth their bytes";
}

TEST(HeldBytes, CountTheMaskThatAReluNeedsToo) {
  const SavedStatistics tensor = saved_tensor(SavedClass::Positive, 8, 16);
  const std::int64_t elements = tensor.elements(kCodedSamples);
  EXPECT_EQ(bytes_of(tensor, {.codec = SavedCodec::Groups, .eighths = 16}),
            group_bytes(elements, 16) + mask_bytes(elements));
  EXPECT_EQ(bytes_of(tensor, {}), 4 * elements) << "whole values tell their zeros";
}

TEST(HeldBytes, OfATransformAreThoseOfItsFormatForEveryPlan) {
  SavedStatistics map = saved_tensor(SavedClass::NormInput, 20, 15);
  SavedStatistics tokens = map;
  tokens.sizes = {1, 197, 24};
  for (const SavedStatistics& tensor : {map, tokens})
    for (const std::uint8_t block : {std::uint8_t{8}, std::uint8_t{7}, std::uint8_t{4}})
      for (std::uint32_t draw = 0; draw < 64; ++draw) {
        SavedPlan plan{.codec = SavedCodec::Frequency, .block = block};
        for (std::size_t band = 0; band < kFrequencyBands; ++band)
          plan.band_eighths[band] =
              static_cast<std::uint8_t>((draw * 2654435761u >> (6 * band)) % 65);
        int bits = 0;
        for (const std::uint8_t width : coefficient_bits(block, plan.band_eighths)) bits += width;
        ASSERT_EQ(stored_bits(plan), bits);
        ASSERT_EQ(bytes_of(tensor, plan), frequency_bytes(plan, tensor.sizes_for(kCodedSamples)));
      }
  tokens.sizes = {1, 24};
  EXPECT_THROW(bytes_of(tokens, {.codec = SavedCodec::Frequency, .block = 8}), UsageError);
  EXPECT_THROW(bytes_of(tokens, {.codec = SavedCodec::Levelled, .eighths = 16}), UsageError);
}

TEST(HeldBytes, OfAPassAddUpWithoutConstants) {
  std::vector<SavedStatistics> tensors = saved_resnet(3);
  const std::vector<SavedPlan> raw(tensors.size());
  const std::int64_t before = fp32_bytes(tensors, kCodedSamples);
  EXPECT_EQ(held_bytes(tensors, raw, kCodedSamples), before);
  const std::int64_t first = tensors[0].fp32_bytes(kCodedSamples);
  tensors[0].replaces_activation_input = true;
  EXPECT_EQ(held_bytes(tensors, raw, kCodedSamples), before);
  EXPECT_EQ(fp32_bytes(tensors, kCodedSamples), before + first);
  EXPECT_EQ(budget_for(tensors, 2, kCodedSamples), (before + first) / 2);
  tensors[0].replaces_activation_input = false;
  tensors.push_back(saved_tensor(SavedClass::Constant, 64, 32));
  EXPECT_EQ(fp32_bytes(tensors, kCodedSamples), before);
  EXPECT_THROW(held_bytes(tensors, raw, kCodedSamples), UsageError);
}

TEST(PutSavedPlans, SayWhichLayersCompress) {
  SavedCensus census;
  for (std::int64_t i = 0; i < 4; ++i) census.entries.push_back({.same_as = i});
  std::vector<SavedStatistics> tensors = tensors_of(census);
  tensors[0].layer = tensors[1].layer = 0;
  tensors[2].layer = 1;
  StepPlan step{.layers = {3, LayerPlan{.saved = ActivationFormat::Compressed}}};
  put_saved_plans(
      step, census, tensors,
      {{}, {.codec = SavedCodec::Groups, .eighths = 16}, {.codec = SavedCodec::Mask}, {}});
  EXPECT_EQ(step.saved.size(), 4u);
  EXPECT_EQ(step.layers[0].saved, ActivationFormat::Compressed);
  EXPECT_EQ(step.layers[1].saved, ActivationFormat::Lossless);
  EXPECT_EQ(step.layers[2].saved, ActivationFormat::Raw);
}

TEST(QuantizationError, IsThatOfDitheredRounding) {
  EXPECT_DOUBLE_EQ(quantization_error(1), 1.0 / 12);
  EXPECT_DOUBLE_EQ(quantization_error(2), 1.0 / 108);
  EXPECT_DOUBLE_EQ(quantization_error(8), 1.0 / (12 * 255.0 * 255));
  EXPECT_DOUBLE_EQ(quantization_error(2.5), (quantization_error(2) + quantization_error(3)) / 2);
}

TEST(BandError, PricesWhatIsDropped) {
  const BandStatistics band{.mean_square = 2, .squared_range = 24};
  EXPECT_DOUBLE_EQ(band_error(band, 0, 16), 32);
  EXPECT_DOUBLE_EQ(band_error(band, 1, 16), 2);
  EXPECT_DOUBLE_EQ(band_error(band, 0.25, 16), 0.75 * 32 + 0.25 * 2);
}

TEST(PredictedErrors, OfNonZerosCountTheirShareTwice) {
  SavedStatistics tensor = saved_tensor(SavedClass::Positive, 8, 16);
  const std::vector<SavedPlan> plans = {{.codec = SavedCodec::NonZeros, .eighths = 16}};
  // Half of the elements are stored, with twice the bits.
  EXPECT_DOUBLE_EQ(predicted_errors(std::vector{tensor}, plans, 16)[0],
                   0.5 * 16 * quantization_error(4));
  tensor.nonzero_squared_range = 8;
  EXPECT_DOUBLE_EQ(predicted_errors(std::vector{tensor}, plans, 16)[0],
                   0.5 * 8 * quantization_error(4));
}

TEST(PredictedErrors, OfDerivedTensorsAreTheirSources) {
  std::vector<SavedStatistics> tensors(3, saved_tensor(SavedClass::Factor, 8, 16));
  tensors[1].source = 0;
  tensors[2].source = 1;
  std::vector<SavedPlan> plans(3, {.codec = SavedCodec::Derived});
  plans[0] = {.codec = SavedCodec::Groups, .eighths = 24};
  const std::vector<double> errors = predicted_errors(tensors, plans, 16);
  EXPECT_GT(errors[0], 0);
  EXPECT_EQ(errors[1], errors[0]);
  EXPECT_EQ(errors[2], errors[0]);
  tensors[1].source = 2;
  EXPECT_THROW(predicted_errors(tensors, plans, 16), UsageError) << "a circle";
  tensors[1].source = -1;
  EXPECT_THROW(predicted_errors(tensors, plans, 16), UsageError);
}

TEST(PredictedErrors, CanDoWithoutMeasurements) {
  SavedStatistics bare{.kind = SavedClass::NormInput, .sizes = {1, 8, 16, 16}};
  const std::vector<SavedPlan> plans = {{.codec = SavedCodec::Groups, .eighths = 16}};
  EXPECT_DOUBLE_EQ(predicted_errors(std::vector{bare}, plans, 16)[0], 32 * quantization_error(2));
}

TEST(PredictedErrors, WeighBandsByTheGradientsSpectrum) {
  SavedStatistics tensor = saved_tensor(SavedClass::NormInput, 8, 32, 0.1);
  const std::vector<SavedPlan> low = {
      {.codec = SavedCodec::Frequency, .block = 8, .band_eighths = {40, 40, 16, 0, 0}}};
  const double flat = predicted_errors(std::vector{tensor}, low, 16)[0];
  for (std::size_t band = 0; band < kFrequencyBands; ++band)
    tensor.transforms[1].bands[band].weight = band < 3 ? 3e4 : 1e3;
  EXPECT_LT(predicted_errors(std::vector{tensor}, low, 16)[0], flat)
      << "what is dropped matters less where the gradient is low";
}

TEST(RateCurve, BuysLessWithEveryByte) {
  for (const SavedClass kind : {SavedClass::NormInput, SavedClass::Positive}) {
    const RateCurve curve(saved_tensor(kind, 16, 32, 0.1), kCodedSamples, {}, {});
    const std::vector<RatePoint>& points = curve.points();
    ASSERT_GT(points.size(), 10u);
    double last = 1e300;
    for (std::size_t i = 1; i < points.size(); ++i) {
      const double slope = (points[i - 1].error - points[i].error) /
                           static_cast<double>(points[i].bytes - points[i - 1].bytes);
      EXPECT_GT(slope, 0);
      EXPECT_LE(slope, last * (1 + 1e-9));
      last = slope;
    }
    EXPECT_EQ(points.back().plan.codec, SavedCodec::Raw);
    EXPECT_EQ(points.back().error, 0);
  }
}

TEST(RateCurve, KeepsTinyTensorsWhole) {
  const RateCurve curve(saved_tensor(SavedClass::Factor, 1, 4), 1, {}, {});
  ASSERT_EQ(curve.points().size(), 1u);
  EXPECT_EQ(curve.points()[0].plan.codec, SavedCodec::Raw);
}

TEST(RateCurve, StartsAtTheLeastBits) {
  const RateCurve curve(saved_tensor(SavedClass::Nonlinear, 16, 32, 0.1), kCodedSamples,
                        {.least_bits = 5}, {});
  for (const RatePoint& point : curve.points())
    EXPECT_GE(mean_bits(saved_tensor(SavedClass::Nonlinear, 16, 32, 0.1), point.plan), 5);
}

TEST(RateCurve, DividesAStepByEighths) {
  const RateCurve curve(saved_tensor(SavedClass::Attention, 16, 32), kCodedSamples, {}, {});
  const RatePoint& from = curve.points()[0];
  const RatePoint& to = curve.points()[1];
  EXPECT_EQ(to.plan.eighths - from.plan.eighths, 8);
  const auto half = curve.part_of_step(0, (from.bytes + to.bytes) / 2);
  ASSERT_TRUE(half.has_value());
  EXPECT_EQ(half->plan.eighths, from.plan.eighths + 4);
  EXPECT_EQ(half->bytes, bytes_of(saved_tensor(SavedClass::Attention, 16, 32), half->plan));
  EXPECT_NEAR(half->error, (from.error + to.error) / 2, 1e-12);
  EXPECT_FALSE(curve.part_of_step(0, from.bytes).has_value());
}

}  // namespace
}  // namespace triaccel
