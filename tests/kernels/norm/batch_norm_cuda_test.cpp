#include "triaccel/kernels/norm/batch_norm.h"

#include <tuple>
#include <utility>
#include <vector>

#include "tests/kernels/common/cuda_fixture.h"
#include "tests/kernels/common/rounding_oracle.h"

namespace triaccel::kernels {
namespace {

at::ScalarType torch_type(FloatType type) {
  return type == FloatType::F32 ? at::kFloat : type == FloatType::F16 ? at::kHalf : at::kBFloat16;
}

/// One layer's maps and parameters, the maps `offset` elements behind an aligned address.
struct Layer {
  std::int64_t rows, channels;
  FloatType type;
  Activation activation;
  at::Tensor input, gradient, residual, added;  // the last two: undefined or [rows, channels]
  at::Tensor weight, bias;
  at::Tensor factors = {};  // [samples], or undefined

  Layer(std::int64_t row_count, std::int64_t channel_count, FloatType element, Activation end,
        bool has_residual, bool has_added = false)
      : rows(row_count), channels(channel_count), type(element), activation(end) {
    input = (at::randn({rows, channels}) * 2 + 0.5).to(torch_type(type));
    if (has_residual) residual = at::randn({rows, channels}).to(torch_type(type));
    gradient = (at::randn({rows, channels}) + 0.1).to(torch_type(type));
    if (has_added) added = at::randn({rows, channels}).to(torch_type(type));
    weight = at::randn({channels}) * 0.5 + 1;
    bias = at::randn({channels}) * 0.5;
  }

  Layer on(at::Device device, std::int64_t offset) const {
    Layer copy = *this;
    for (at::Tensor* map : {&copy.input, &copy.residual, &copy.gradient, &copy.added})
      if (map->defined()) *map = placed(*map, device, offset);
    copy.weight = weight.to(device);
    copy.bias = bias.to(device);
    if (factors.defined()) copy.factors = factors.to(device);
    return copy;
  }

  static at::Tensor placed(const at::Tensor& map, at::Device device, std::int64_t offset) {
    const at::Tensor place = at::full({map.numel() + offset}, 77, map.options().device(device));
    return place.narrow(0, offset, map.numel()).view(map.sizes()).copy_(map);
  }

  NormForward forward_to(const at::Tensor& output) const {
    return {.map = {rows, channels, type},
            .output = output.data_ptr(),
            .input = input.data_ptr(),
            .factors = sample_factors(),
            .residual = residual.defined() ? residual.data_ptr() : nullptr,
            .weight = pointer<float>(weight),
            .bias = pointer<float>(bias),
            .activation = activation,
            .eps = 1e-5f};
  }

  SampleFactors sample_factors() const {
    if (!factors.defined()) return {};
    return {factors.const_data_ptr(), rows / factors.numel()};
  }

  NormMap map() const { return {rows, channels, type}; }
  bool rectifies() const { return activation == Activation::Relu; }

  /// What the ReLU mask of an output must be.
  at::Tensor relu_mask_of(const at::Tensor& output) const {
    const std::int64_t wide = mask_bits_per_byte(map());
    const at::Tensor bits = at::arange(wide, output.options().dtype(at::kLong));
    return (output > 0)
        .view({-1, wide})
        .to(at::kLong)
        .mul(at::ones_like(bits).bitwise_left_shift(bits))
        .sum(1)
        .to(at::kByte);
  }
};

/// In the order of the names; compared as a list.
using Results = std::vector<at::Tensor>;
constexpr const char* kNames[] = {"output",
                                  "mean",
                                  "inverse",
                                  "running mean",
                                  "running variance",
                                  "input gradient",
                                  "weight gradient",
                                  "bias gradient",
                                  "residual gradient",
                                  "relu_mask"};

class BatchNormOnCuda : public CudaTest {
 protected:
  /// Forward, then backward from the given forward results (its own where there are none).
  /// `masked`: by a ReLU's mask, as it must be after a residual, and not found from the input.
  Results run(const Layer& layer, std::int64_t offset = 0, const Results& forward = {},
              bool masked = false) {
    const at::Device device = layer.input.device();
    const auto map = [&] { return Layer::placed(at::full_like(layer.input, 99), device, offset); };
    const auto row = [&](double value) {
      return at::full({layer.channels}, value, at::TensorOptions(device).dtype(at::kFloat));
    };
    const at::Tensor relu_mask =
        at::full({relu_mask_bytes(layer.map())}, 165, at::TensorOptions(device).dtype(at::kByte));
    Results results = {map(), row(0), row(0), row(3), row(4),
                       map(), row(0), row(0), map(),  relu_mask};
    const at::Tensor scratch = scratch_of(layer);
    NormForward params = layer.forward_to(results[0]);
    const bool keeps_relu_mask = layer.rectifies() && offset == 0;
    if (keeps_relu_mask) params.relu_mask = pointer<std::uint8_t>(relu_mask);
    const NormBatchStatistics statistics = {pointer<float>(results[1]), pointer<float>(results[2]),
                                            pointer<float>(results[3]), pointer<float>(results[4]),
                                            0.25f};
    if (device.is_cpu())
      cpu::batch_norm_train(params, statistics);
    else
      cuda::batch_norm_train(params, statistics, scratch.data_ptr(), stream());

    const bool needs_mask =
        (layer.residual.defined() || layer.factors.defined()) && layer.rectifies();
    const bool passes_on = (layer.residual.defined() && needs_mask) ||
                           (layer.residual.defined() && layer.added.defined());
    const Results& from = forward.empty() ? results : forward;
    const NormBackward back = {
        .map = params.map,
        .output_gradient = layer.gradient.data_ptr(),
        .added_gradient = layer.added.defined() ? layer.added.data_ptr() : nullptr,
        .input = layer.input.data_ptr(),
        .factors = layer.sample_factors(),
        .relu_mask = needs_mask || masked ? pointer<std::uint8_t>(from[9]) : nullptr,
        .mean = pointer<float>(from[1]),
        .inverse_deviation = pointer<float>(from[2]),
        .weight = params.weight,
        .bias = params.bias,
        .activation = layer.activation,
        .input_gradient = results[5].data_ptr(),
        .residual_gradient = passes_on ? results[8].data_ptr() : nullptr,
        .weight_gradient = pointer<float>(results[6]),
        .bias_gradient = pointer<float>(results[7])};
    if (device.is_cpu())
      cpu::batch_norm_backward(back);
    else
      cuda::batch_norm_backward(back, scratch.data_ptr(), stream());
    return results;
  }

  at::Tensor scratch_of(const Layer& layer) {
    if (layer.input.is_cpu()) return at::empty({0});
    return at::full({cuda::batch_norm_scratch_bytes(layer.map())}, 255,
                    at::TensorOptions(device_).dtype(at::kByte));
  }

  /// Against the CPU; backward starts from the CPU's forward results on both sides.
  void expect_cpu_results(Layer layer, std::int64_t offset = 0) {
    Results host = run(layer);
    // A mask bit within rounding of zero may be set on one side only: its gradient is 0 here.
    const at::Tensor before = (layer.input.to(at::kFloat) - host[1]) * host[2] * layer.weight;
    const at::Tensor near_zero = (before + layer.bias).abs() < 1e-4;
    layer.gradient.masked_fill_(near_zero, 0);
    if (layer.added.defined()) layer.added.masked_fill_(near_zero, 0);
    host = run(layer);
    const Layer device_layer = layer.on(device_, offset);
    Results forward;
    for (const at::Tensor& result : host)
      forward.push_back(result.dim() == 2 ? Layer::placed(result, device_, offset)
                                          : result.to(device_));
    const Results device = run(device_layer, offset, forward);
    const Results again = run(device_layer, offset, forward);
    if (layer.rectifies()) {
      EXPECT_TRUE(at::equal(device[9], device_layer.relu_mask_of(device[0])))
          << layer.rows << " x " << layer.channels << ", type " << static_cast<int>(layer.type);
      Results masked = forward;  // where the GPU itself would set it
      masked[9] = device[9];
      EXPECT_TRUE(at::equal(run(device_layer, offset, masked, /*masked=*/true)[5],
                            run(device_layer, offset, masked)[5]))
          << layer.rows << " x " << layer.channels;
    }
    const double rounding = layer.type == FloatType::F32    ? 1e-5
                            : layer.type == FloatType::Bf16 ? 0x1p-7
                                                            : 0x1p-10;
    for (std::size_t i = 0; i < 9; ++i) {  // masks near zero may differ
      const bool is_map = host[i].dim() == 2;
      // A sum over rows of numbers near one, in another order.
      const double sums = i == 6 || i == 7 ? 1e-6 * static_cast<double>(layer.rows) : 0;
      const double steep = is_map ? 1e-6 * host[2].max().item<double>() : 0;
      const at::Tensor a = device[i].cpu().to(at::kFloat), b = host[i].to(at::kFloat);
      EXPECT_TRUE(at::allclose(a, b, is_map ? rounding : 1e-5, 2e-5 + sums + steep))
          << kNames[i] << " of " << layer.rows << " x " << layer.channels << ", type "
          << static_cast<int>(layer.type) << ", activation " << static_cast<int>(layer.activation)
          << ", residual " << layer.residual.defined() << ", added " << layer.added.defined()
          << ", factors " << layer.factors.defined() << ", offset " << offset << ": largest gap "
          << (a - b).abs().max().item<float>();
      EXPECT_TRUE(at::equal(device[i], again[i])) << kNames[i] << " differs between two runs";
    }
  }
};

const std::tuple<Activation, bool> kEnds[] = {{Activation::None, false},
                                              {Activation::None, true},
                                              {Activation::Relu, false},
                                              {Activation::Relu, true},
                                              {Activation::Silu, false}};
TEST_F(BatchNormOnCuda, MatchesTheCpuForEveryTypeAndEndOnOddSizes) {
  for (const FloatType type : kFloatTypes)
    for (const auto& [activation, has_residual] : kEnds)
      for (const std::int64_t rows : {2, 3, 31, 521, 7001})
        for (const std::int64_t channels : {1, 3, 7, 8, 24, 65})
          expect_cpu_results(
              Layer(rows, channels, type, activation, has_residual, /*has_added=*/rows % 2 == 1));
}

struct MapShape {
  std::int64_t rows, channels;
};

class BatchNormShapesOnCuda : public BatchNormOnCuda,
                              public testing::WithParamInterface<MapShape> {};

TEST_P(BatchNormShapesOnCuda, MatchTheCpu) {
  for (const FloatType type : {FloatType::F32, FloatType::Bf16})
    for (const auto& [activation, has_residual] : {kEnds[3], kEnds[4]})
      for (const bool has_added : {false, true})
        expect_cpu_results(
            Layer(GetParam().rows, GetParam().channels, type, activation, has_residual, has_added));
}

// In registers: one block, clusters of 2 to 8, few and many packs per thread, and the last that
// fit; then the first for two kernels, wide ones, and rows that allow no wide reads.
INSTANTIATE_TEST_SUITE_P(BoundsOfPaths, BatchNormShapesOnCuda,
                         testing::ValuesIn(std::initializer_list<MapShape>{
                             {96, 512},   {384, 256},   {512, 64},   {513, 64},    {1025, 128},
                             {2049, 40},  {6144, 64},   {8193, 24},  {24576, 64},  {24577, 64},
                             {28673, 64}, {24576, 32},  {49153, 16}, {24601, 144}, {3001, 336},
                             {501, 1152}, {1592, 1152}, {4704, 480}, {3072, 65},   {30011, 65}}),
                         [](const auto& shape) {
                           return text(shape.param.rows, "_rows_", shape.param.channels,
                                       "_channels");
                         });

TEST_F(BatchNormOnCuda, MatchesTheCpuOnMapsOfHundredsOfThousandsOfRows) {
  for (const auto& [rows, channels] : {std::pair<std::int64_t, std::int64_t>{401408, 16},
                                       {98304, 64},
                                       {200003, 24},
                                       {24577, 512},
                                       {100003, 3}})
    for (const auto& [activation, has_residual] : {kEnds[2], kEnds[3]})
      expect_cpu_results(Layer(rows, channels, FloatType::Bf16, activation, has_residual,
                               /*has_added=*/channels == 64));
}

/// In registers with few and many packs per thread, by two kernels, and in rows that allow no wide
/// reads.
TEST_F(BatchNormOnCuda, MultipliesEverySampleWithItsFactorAsTheCpu) {
  struct Shape {
    std::int64_t samples, pixels, channels;
  };
  for (const Shape& shape : {Shape{96, 1, 320}, Shape{96, 16, 80}, Shape{5, 1225, 24},
                             Shape{96, 256, 16}, Shape{31, 49, 7}, Shape{501, 49, 40}})
    for (const FloatType type : kFloatTypes)
      for (const auto& [activation, has_residual] : {kEnds[0], kEnds[1], kEnds[3]}) {
        Layer layer(shape.samples * shape.pixels, shape.channels, type, activation, has_residual,
                    /*has_added=*/has_residual);
        layer.factors = at::rand({shape.samples}).gt(0.4).to(torch_type(type)).div_(0.6);
        expect_cpu_results(layer);
      }
}

TEST_F(BatchNormOnCuda, ReadsMapsThatStartAnywhere) {
  for (const std::int64_t rows : {100, 60001})
    for (const std::int64_t offset : {1, 4})
      expect_cpu_results(Layer(rows, 32, FloatType::Bf16, Activation::None, true, true), offset);
}

TEST_F(BatchNormOnCuda, KeepsItsDigitsUnderALargeMean) {
  for (const std::int64_t rows : {1000, 20001, 300007}) {
    Layer layer(rows, 8, FloatType::F32, Activation::None, false);
    layer.input = at::randn({rows, 8}) * 0.1 + 100;
    layer.input[0][0] = 0;
    const Results device = run(layer.on(device_, 0));
    const at::Tensor exact = layer.input.to(at::kDouble);
    const at::Tensor inverse = (exact.var(0, /*unbiased=*/false) + 1e-5).rsqrt();
    EXPECT_TRUE(at::allclose(device[1].cpu().to(at::kDouble), exact.mean(0), 0, 1e-4));
    EXPECT_TRUE(at::allclose(device[2].cpu().to(at::kDouble), inverse, 1e-3, 0));
  }
}

TEST_F(BatchNormOnCuda, InfersAsTheCpu) {
  for (const FloatType type : kFloatTypes)
    for (const auto& [activation, has_residual] : kEnds)
      for (const auto& [rows, channels] :
           {std::pair<std::int64_t, std::int64_t>{1, 8}, {1, 1}, {97, 65}, {50021, 48}}) {
        const Layer layer(rows, channels, type, activation, has_residual);
        const Layer device_layer = layer.on(device_, 0);
        const at::Tensor mean = at::randn({channels}), variance = at::rand({channels}) + 0.1;
        const at::Tensor device_mean = mean.to(device_), device_variance = variance.to(device_);
        const at::Tensor host = at::empty_like(layer.input),
                         device = at::full_like(device_layer.input, 99);
        cpu::batch_norm_infer(layer.forward_to(host),
                              {pointer<float>(mean), pointer<float>(variance)});
        cuda::batch_norm_infer(device_layer.forward_to(device),
                               {pointer<float>(device_mean), pointer<float>(device_variance)},
                               stream());
        EXPECT_TRUE(at::allclose(device.cpu().to(at::kFloat), host.to(at::kFloat),
                                 type == FloatType::F32 ? 1e-5 : 0x1p-7, 1e-5))
            << rows << " x " << channels;
      }
}

TEST_F(BatchNormOnCuda, WritesOnlyWhatIsWanted) {
  for (const std::int64_t rows : {64, 60000}) {
    const Layer layer = Layer(rows, 64, FloatType::Bf16, Activation::Relu, true).on(device_, 0);
    const Results all = run(layer);
    const at::Tensor scratch = scratch_of(layer), bias_gradient = at::empty_like(all[7]),
                     input_gradient = at::empty_like(all[5]);
    NormBackward back = {.map = {rows, 64, layer.type},
                         .output_gradient = layer.gradient.data_ptr(),
                         .input = layer.input.data_ptr(),
                         .relu_mask = pointer<std::uint8_t>(all[9]),
                         .mean = pointer<float>(all[1]),
                         .inverse_deviation = pointer<float>(all[2]),
                         .weight = pointer<float>(layer.weight),
                         .bias = pointer<float>(layer.bias),
                         .activation = layer.activation,
                         .bias_gradient = pointer<float>(bias_gradient)};
    cuda::batch_norm_backward(back, scratch.data_ptr(), stream());
    EXPECT_TRUE(at::equal(bias_gradient, all[7]));
    back.bias_gradient = nullptr;
    back.input_gradient = input_gradient.data_ptr();
    cuda::batch_norm_backward(back, scratch.data_ptr(), stream());
    EXPECT_TRUE(at::equal(input_gradient, all[5]));
  }
}

}  // namespace
}  // namespace triaccel::kernels
