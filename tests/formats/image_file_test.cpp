#include "triaccel/formats/image_file.h"

#include <algorithm>

#include "tests/formats/sample_images.h"
#include "triaccel/formats/bad_data.h"

namespace triaccel {
namespace {

using test::bytes_of;
using test::PngSample;
using ImageBytes = test::Bytes;

std::vector<std::uint8_t> pixel_of(const RgbImage& image, std::int64_t x, std::int64_t y) {
  const auto at = image.pixels.begin() + (y * image.width + x) * 3;
  return {at, at + 3};
}

std::vector<std::uint8_t> resized(const RgbImage& image, std::int64_t size) {
  std::vector<std::uint8_t> planes(static_cast<std::size_t>(3 * size * size));
  resize_and_crop(image, size, planes);
  return planes;
}

TEST(ImageNames, GoByTheExtensionInAnyCase) {
  EXPECT_TRUE(is_image_name("a.png"));
  EXPECT_TRUE(is_image_name("a.b.JPeG"));
  EXPECT_FALSE(is_image_name("a.webp"));
  EXPECT_FALSE(is_image_name(".png"));
  EXPECT_FALSE(is_image_name("png"));
}

TEST(ResizeAndCrop, KeepsAnImageOfTheRightSize) {
  RgbImage image{.width = 3, .height = 3};
  for (int i = 0; i < 27; ++i) image.pixels.push_back(static_cast<std::uint8_t>(9 * i));
  const auto planes = resized(image, 3);
  for (std::size_t i = 0; i < 9; ++i)
    for (std::size_t c = 0; c < 3; ++c) EXPECT_EQ(planes[c * 9 + i], image.pixels[3 * i + c]);
}

TEST(ResizeAndCrop, AveragesAllPixelsOfAReduction) {
  // Columns of 0 and 200 in turn: a reduction that skipped pixels would show one of them.
  RgbImage image{.width = 64, .height = 64};
  for (int i = 0; i < 64 * 64; ++i)
    image.pixels.insert(image.pixels.end(), 3, static_cast<std::uint8_t>(i % 2 * 200));
  for (const std::uint8_t value : resized(image, 4)) EXPECT_NEAR(value, 100, 2);
}

TEST(ResizeAndCrop, MatchesPillow) {
  // PIL.Image.fromarray(ramp).resize((4, 4), BILINEAR) of an 8x8 ramp 0, 4, 8, …: computed by hand
  // from the triangle of width 2; the first output weighs columns 0 to 2 by 3/8, 3/8, 2/8 … within
  // the image, renormalized.
  RgbImage image{.width = 8, .height = 1};
  image.height = 8;
  for (int y = 0; y < 8; ++y)
    for (int x = 0; x < 8; ++x)
      image.pixels.insert(image.pixels.end(), 3, static_cast<std::uint8_t>(32 * x));
  const auto planes = resized(image, 4);
  // Output 0 has its centre at 1.0, support 2: weights of columns 0, 1, 2 are 3/4, 3/4, 1/4.
  EXPECT_EQ(planes[0], (0 * 3 + 32 * 3 + 64 * 1 + 3) / 7);
  // Output 1, centre 3.0: columns 1 to 4 by 1/4, 3/4, 3/4, 1/4.
  EXPECT_EQ(planes[1], (32 * 1 + 64 * 3 + 96 * 3 + 128 * 1) / 8);
}

TEST(ResizeAndCrop, CutsOutTheCentre) {
  RgbImage image{.width = 12, .height = 4};  // black, white, black, a third each
  for (int y = 0; y < 4; ++y)
    for (int x = 0; x < 12; ++x)
      image.pixels.insert(image.pixels.end(), 3,
                          x >= 4 && x < 8 ? std::uint8_t{255} : std::uint8_t{0});
  for (const std::uint8_t value : resized(image, 4)) EXPECT_EQ(value, 255);
}

TEST(ResizeAndCrop, EnlargesSmoothly) {
  RgbImage image{
      .width = 2, .height = 2, .pixels = {0, 0, 0, 255, 255, 255, 0, 0, 0, 255, 255, 255}};
  const auto planes = resized(image, 8);
  EXPECT_TRUE(std::is_sorted(planes.begin(), planes.begin() + 8));
  EXPECT_EQ(planes[0], 0);
  EXPECT_EQ(planes[7], 255);
}

#if TRIACCEL_HAS_IMAGES

void expect_broken(std::span<const std::byte> file, const DecodeOptions& options = {}) {
  try {
    decode_image(file, "cats/1.jpg", options);
    ADD_FAILURE() << "decoded " << file.size() << " bytes";
  } catch (const DefectError& error) {
    EXPECT_EQ(error.finding.defect, Defect::BrokenImage);
    EXPECT_EQ(error.finding.file, "cats/1.jpg");
    EXPECT_FALSE(error.finding.detail.empty());
  }
}

TEST(Png, DecodesEveryKindOfPixel) {
  const RgbImage rgb = decode_image(test::flat_png(3, 2, {10, 20, 30}), "f");
  EXPECT_EQ(rgb.width, 3);
  EXPECT_EQ(rgb.height, 2);
  EXPECT_EQ(pixel_of(rgb, 2, 1), (std::vector<std::uint8_t>{10, 20, 30}));
  const RgbImage grey = decode_image(
      test::png_of({.width = 2, .height = 1, .color = 0, .rows = bytes_of("\x07\x99")}), "f");
  EXPECT_EQ(pixel_of(grey, 1, 0), (std::vector<std::uint8_t>{0x99, 0x99, 0x99}));
  const RgbImage bits = decode_image(
      test::png_of({.width = 2, .height = 1, .depth = 1, .color = 0, .rows = bytes_of("\x40")}),
      "f");
  EXPECT_EQ(pixel_of(bits, 0, 0).front(), 0);
  EXPECT_EQ(pixel_of(bits, 1, 0).front(), 255);
  const RgbImage palette =
      decode_image(test::png_of({.width = 2,
                                 .height = 1,
                                 .color = 3,
                                 .rows = bytes_of(std::string_view("\x01\x00", 2)),
                                 .palette = bytes_of("abcdef")}),
                   "f");
  EXPECT_EQ(pixel_of(palette, 0, 0), (std::vector<std::uint8_t>{'d', 'e', 'f'}));
  const RgbImage deep = decode_image(
      test::png_of(
          {.width = 1, .height = 1, .depth = 16, .color = 0, .rows = bytes_of("\x80\x80")}),
      "f");
  EXPECT_EQ(pixel_of(deep, 0, 0), (std::vector<std::uint8_t>{0x80, 0x80, 0x80}));
}

TEST(Png, DropsAlpha) {
  const RgbImage image = decode_image(
      test::png_of({.width = 2,
                    .height = 1,
                    .color = 6,
                    .rows = bytes_of(std::string_view("\x0a\x14\x1e\x00\x28\x32\x3c\xff", 8))}),
      "f");
  EXPECT_EQ(image.pixels, (std::vector<std::uint8_t>{10, 20, 30, 40, 50, 60}));
  const RgbImage grey = decode_image(
      test::png_of(
          {.width = 1, .height = 1, .color = 4, .rows = bytes_of(std::string_view("\x64\x00", 2))}),
      "f");
  EXPECT_EQ(grey.pixels, (std::vector<std::uint8_t>{100, 100, 100}));
}

TEST(Png, EveryTruncationIsBroken) {
  const ImageBytes png = test::flat_png(5, 5, {1, 2, 3});
  const std::size_t data_end = png.size() - 12;  // before IEND
  for (std::size_t n = 0; n < data_end; ++n) expect_broken(std::span(png).first(n));
}

TEST(Png, DamageIsBroken) {
  ImageBytes png = test::flat_png(5, 5, {1, 2, 3});
  png[45] ^= std::byte{1};  // in IDAT: its checksum fails
  expect_broken(png);
}

TEST(Png, RefusesMorePixelsThanAllowedAndThanTheFileCanHold) {
  expect_broken(test::flat_png(20, 20, {1, 2, 3}), {.max_pixels = 399});
  PngSample bomb{.width = 30'000, .height = 3'000};
  expect_broken(test::png_of(bomb));  // 90 million pixels in a few bytes
  bomb.width = 0x7fffffff;
  expect_broken(test::png_of(bomb));
}

test::JpegSample left_and_right(unsigned width, unsigned height) {
  test::JpegSample sample{.width = width, .height = height};
  for (unsigned y = 0; y < height; ++y)
    for (unsigned x = 0; x < width; ++x) {
      const bool left = x < width / 2;
      for (const int value : {left ? 200 : 20, 90, left ? 20 : 200})
        sample.pixels.push_back(static_cast<std::uint8_t>(value));
    }
  return sample;
}

void expect_near(const std::vector<std::uint8_t>& pixel, std::array<int, 3> rgb) {
  for (std::size_t c = 0; c < 3; ++c) EXPECT_NEAR(pixel[c], rgb[c], 6) << "channel " << c;
}

TEST(Jpeg, DecodesColourGreyAndProgressive) {
  test::JpegSample sample = left_and_right(32, 16);
  for (const bool progressive : {false, true}) {
    sample.progressive = progressive;
    const RgbImage image = decode_image(test::jpeg_of(sample), "f");
    EXPECT_EQ(image.width, 32);
    EXPECT_EQ(image.height, 16);
    expect_near(pixel_of(image, 2, 3), {200, 90, 20});
    expect_near(pixel_of(image, 30, 12), {20, 90, 200});
  }
  const RgbImage grey = decode_image(
      test::jpeg_of(
          {.width = 8, .height = 8, .channels = 1, .pixels = std::vector<std::uint8_t>(64, 77)}),
      "f");
  expect_near(pixel_of(grey, 4, 4), {77, 77, 77});
}

TEST(Jpeg, DecodesCmyk) {
  test::JpegSample sample{.width = 8, .height = 8, .channels = 4};
  for (int i = 0; i < 64; ++i)  // as Adobe: what is left of the light
    for (const int value : {200, 100, 40, 128})
      sample.pixels.push_back(static_cast<std::uint8_t>(value));
  const RgbImage image = decode_image(test::jpeg_of(sample), "f");
  expect_near(pixel_of(image, 4, 4), {200 * 128 / 255, 100 * 128 / 255, 40 * 128 / 255});
}

std::string exif_with(int orientation, bool little) {
  const auto number = [&](unsigned value, int bytes) {
    std::string out;
    for (int i = 0; i < bytes; ++i)
      out += static_cast<char>(value >> (8 * (little ? i : bytes - 1 - i)) & 0xff);
    return out;
  };
  return std::string("Exif\0\0", 6) + (little ? "II" : "MM") + number(42, 2) + number(8, 4) +
         number(1, 2) + number(0x112, 2) + number(3, 2) + number(1, 4) +
         number(static_cast<unsigned>(orientation), 2) + number(0, 2) + number(0, 4);
}

TEST(Jpeg, AppliesTheOrientation) {
  // Where the bright red left half of the stored image is shown.
  struct Case {
    int orientation;
    std::int64_t width, height, x, y;
  };
  for (const Case& one : {Case{1, 32, 16, 2, 8}, Case{2, 32, 16, 30, 8}, Case{3, 32, 16, 30, 8},
                          Case{4, 32, 16, 2, 8}, Case{5, 16, 32, 8, 2}, Case{6, 16, 32, 8, 2},
                          Case{7, 16, 32, 8, 30}, Case{8, 16, 32, 8, 30}, Case{9, 32, 16, 2, 8}})
    for (const bool little : {false, true}) {
      test::JpegSample sample = left_and_right(32, 16);
      sample.exif = exif_with(one.orientation, little);
      const ImageBytes file = test::jpeg_of(sample);
      const RgbImage image = decode_image(file, "f");
      EXPECT_EQ(image.width, one.width) << one.orientation;
      EXPECT_EQ(image.height, one.height) << one.orientation;
      expect_near(pixel_of(image, one.x, one.y), {200, 90, 20});
      const ImageSize size = read_image_size(file, "f");
      EXPECT_EQ(size.width, one.width);
      EXPECT_EQ(size.height, one.height);
    }
}

TEST(Jpeg, IgnoresDamagedExif) {
  for (std::size_t n = 0; n < exif_with(6, true).size(); ++n) {
    test::JpegSample sample = left_and_right(16, 8);
    sample.exif = exif_with(6, true).substr(0, n);
    EXPECT_NO_THROW(decode_image(test::jpeg_of(sample), "f")) << n;
  }
}

TEST(Jpeg, EveryTruncationIsBroken) {
  const ImageBytes file = test::jpeg_of(left_and_right(16, 16));
  for (std::size_t n = 0; n + 2 < file.size(); ++n) expect_broken(std::span(file).first(n));
}

TEST(Jpeg, DecodesLargeImagesAtAFraction) {
  const ImageBytes file = test::jpeg_of(left_and_right(256, 128));
  const RgbImage image = decode_image(file, "f", {.shorter_side = 16});
  EXPECT_EQ(image.width, 64);
  EXPECT_EQ(image.height, 32);
  expect_near(pixel_of(image, 4, 4), {200, 90, 20});
  EXPECT_EQ(decode_image(file, "f", {.shorter_side = 100}).width, 256);
}

TEST(Images, OtherFormatsAreNamed) {
  try {
    decode_image(bytes_of("RIFF....WEBPVP8 "), "a.jpg");
    FAIL();
  } catch (const DataError& error) {
    EXPECT_NE(std::string(error.what()).find("a.jpg"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("RIFF....WEBP"), std::string::npos);
  }
  expect_broken({});
}

TEST(Images, SizeComesFromTheHeader) {
  const ImageBytes png = test::flat_png(7, 9, {0, 0, 0});
  const ImageSize size = read_image_size(std::span(png).first(60), "f");
  EXPECT_EQ(size.width, 7);
  EXPECT_EQ(size.height, 9);
}

#endif

}  // namespace
}  // namespace triaccel
