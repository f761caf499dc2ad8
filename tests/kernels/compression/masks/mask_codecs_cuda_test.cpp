#include "tests/kernels/common/cuda_fixture.h"
#include "tests/kernels/compression/masks/mask_codecs_cases.h"

namespace triaccel::kernels {
namespace {

using namespace mask_cases;

class MaskCodecsOnCuda : public CudaTest {
 protected:
  template <typename Element>
  at::Tensor room_for(const std::vector<Element>& elements, std::int64_t shift = 0) const {
    const auto bytes = static_cast<std::int64_t>(elements.size() * sizeof(Element));
    const at::Tensor host = at::full({bytes + shift}, 0xaa, at::kByte);
    std::memcpy(host.mutable_data_ptr<std::uint8_t>() + shift, elements.data(),
                static_cast<std::size_t>(bytes));
    return host.to(device_);
  }
  template <typename Element>
  static std::vector<Element> on_host(const at::Tensor& bytes, std::int64_t shift = 0) {
    const at::Tensor host = bytes.cpu();
    const auto size = static_cast<std::size_t>(host.numel() - shift);
    std::vector<Element> elements(size / sizeof(Element));
    std::memcpy(elements.data(), host.const_data_ptr<std::uint8_t>() + shift, size);
    return elements;
  }
};

TEST_F(MaskCodecsOnCuda, GiveTheBitsAndElementsOfTheCpu) {
  for (const std::int64_t count : mask_counts())
    for (const MaskElement type : kElements)
      for (const std::int64_t shift : {0, 4})
        with_mask_element(type, [&]<typename Element>(Element) {
          using Word = typename Element::Word;
          std::vector<Word> elements;
          for (std::int64_t i = 0; i < count; ++i)
            elements.push_back(Element::rounded(awkward_value(i)));
          const at::Tensor on_device = room_for(elements, shift);
          const at::Tensor value = at::full({1}, 1.25, at::TensorOptions(device_));
          std::vector<std::uint32_t> wanted(static_cast<std::size_t>(mask_bytes(count) / 4));
          const at::Tensor words = room_for(wanted);
          auto* bits = static_cast<std::uint32_t*>(words.mutable_data_ptr());
          auto* at_shift = on_device.mutable_data_ptr<std::uint8_t>() + shift;
          for (const MaskTest test : kTests) {
            cpu::encode_mask({type, count}, elements.data(), test, wanted.data());
            cuda::encode_mask({type, count}, at_shift, test, bits, stream());
            ASSERT_EQ(on_host<std::uint32_t>(words), wanted)
                << count << " of type " << static_cast<int>(type);
          }
          cpu::decode_mask({type, count}, wanted.data(), {.value = 1.25f}, elements.data());
          cuda::decode_mask({type, count}, bits, {.from_memory = value.const_data_ptr<float>()},
                            at_shift, stream());
          ASSERT_EQ(on_host<Word>(on_device, shift), elements)
              << count << " of type " << static_cast<int>(type);
        });
}

TEST_F(MaskCodecsOnCuda, GiveTheTapsAndIndicesOfTheCpu) {
  for (const WindowCase& each : window_cases())
    for (const std::int64_t shift : {0, 8}) {
      const at::Tensor indices = room_for(each.indices, shift);
      std::vector<std::uint32_t> wanted(tap_words(each.places));
      const at::Tensor taps = room_for(wanted);
      auto* words = static_cast<std::uint32_t*>(taps.mutable_data_ptr());
      auto* from =
          reinterpret_cast<std::int64_t*>(indices.mutable_data_ptr<std::uint8_t>() + shift);
      cpu::encode_windows(each.places, each.indices.data(), wanted.data());
      cuda::encode_windows(each.places, from, words, stream());
      ASSERT_EQ(on_host<std::uint32_t>(taps), wanted);
      indices.fill_(0xaa);
      cuda::decode_windows(each.places, words, from, stream());
      ASSERT_EQ(on_host<std::int64_t>(indices, shift), each.indices);
    }
}

}  // namespace
}  // namespace triaccel::kernels
