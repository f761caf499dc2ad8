#include "triaccel/kernels/loss_data/augment.h"

#include "tests/kernels/common/cuda_fixture.h"
#include "tests/kernels/common/tensor_bunch.h"

namespace triaccel::kernels {
namespace {

class AugmentOnCuda : public CudaTest {
 protected:
  /// The batch on `device`, through that device's own kernel.
  at::Tensor cut(at::Device device, const at::Tensor& images, const at::Tensor& ids,
                 bool channels_last) {
    const at::Tensor i = images.to(device), s = ids.to(device),
                     e = at::tensor({std::int64_t{7}}).to(device);
    const at::Tensor scale = scale_.narrow(0, 0, images.size(1)).to(device);
    const at::Tensor shift = shift_.narrow(0, 0, images.size(1)).to(device);
    const at::Tensor output =
        at::empty({ids.numel() * images.size(1) * images.size(2) * images.size(3)},
                  at::TensorOptions().device(device));
    const ImageBatch batch = {.images = i.data_ptr<std::uint8_t>(),
                              .sample_ids = s.data_ptr<std::int64_t>(),
                              .epoch = e.data_ptr<std::int64_t>(),
                              .scale = scale.data_ptr<float>(),
                              .shift = shift.data_ptr<float>(),
                              .image_count = images.size(0),
                              .batch = ids.numel(),
                              .channels = images.size(1),
                              .height = images.size(2),
                              .width = images.size(3)};
    const Augmentation params = {.seed = 11, .padding = 4, .flip = true};
    if (device.is_cuda())
      cuda::augment(batch, params, channels_last, output.data_ptr<float>(), stream());
    else
      cpu::augment(batch, params, channels_last, output.data_ptr<float>());
    return output.cpu();
  }
  const at::Tensor scale_ = at::tensor({0.0171247f, 0.0175070f, 0.0174292f, 0.5f, 3.0f});
  const at::Tensor shift_ = at::tensor({-2.1179039f, -2.0357143f, -1.8044444f, 0.0f, -7.0f});
};

TEST_F(AugmentOnCuda, GivesTheBitsOfTheCpu) {
  for (const std::int64_t side : {1, 7, 32, 65})
    for (const std::int64_t size : {0, 1, 97}) {
      const at::Tensor images = at::randint(256, {200, 3, side, side + 1}, at::kByte);
      const at::Tensor ids = at::randint(200, {size}, at::kLong);
      for (const bool channels_last : {false, true})
        EXPECT_TRUE(same_bits(cut(device_, images, ids, channels_last),
                              cut(at::kCPU, images, ids, channels_last)))
            << side << " px, batch " << size << ", channels last " << channels_last;
    }
}

TEST_F(AugmentOnCuda, GivesTheBitsOfTheCpuForLinesOfAnyLength) {
  const at::Tensor ids = at::randint(9, {5}, at::kLong);
  for (const std::int64_t channels : {1, 3, 5})
    for (const std::int64_t width : {1, 2, 3, 5, 17, 90, 300, 515})
      for (const std::int64_t height : {1, 2, 15, 17}) {
        const at::Tensor images = at::randint(256, {9, channels, height, width}, at::kByte);
        for (const bool channels_last : {false, true})
          EXPECT_TRUE(same_bits(cut(device_, images, ids, channels_last),
                                cut(at::kCPU, images, ids, channels_last)))
              << channels << " x " << height << " x " << width << ", channels last "
              << channels_last;
      }
}

TEST_F(AugmentOnCuda, AnswersAnUnknownSampleWithNaN) {
  const at::Tensor images = at::randint(256, {4, 3, 5, 5}, at::kByte);
  for (const bool channels_last : {false, true})
    for (const std::int64_t unknown : {-1, 4})
      EXPECT_TRUE(
          cut(device_, images, at::tensor({unknown}), channels_last).isnan().all().item<bool>());
}

TEST_F(AugmentOnCuda, GathersLabels) {
  const at::Tensor labels = at::randint(256, {1000}, at::kByte);
  const at::Tensor ids = at::randint(1000, {777}, at::kLong);
  const at::Tensor on_cuda = labels.to(device_), ids_on_cuda = ids.to(device_);
  const at::Tensor output = at::empty_like(ids_on_cuda);
  cuda::gather_labels(on_cuda.data_ptr<std::uint8_t>(), 1000, ids_on_cuda.data_ptr<std::int64_t>(),
                      777, output.data_ptr<std::int64_t>(), stream());
  EXPECT_TRUE(same_bits(output, labels.index_select(0, ids).to(at::kLong)));
}

}  // namespace
}  // namespace triaccel::kernels
