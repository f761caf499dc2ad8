#pragma once

#include <zlib.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "tests/formats/sample_files.h"

#if TRIACCEL_HAS_IMAGES
#include <jpeglib.h>
#endif

// PNG, JPEG and zip files made in memory.
namespace triaccel::test {

inline void append_chunk(Bytes& png, std::string_view type, std::span<const std::byte> data) {
  append_word(png, static_cast<std::uint32_t>(data.size()));
  Bytes body = bytes_of(type);
  body.insert(body.end(), data.begin(), data.end());
  png.insert(png.end(), body.begin(), body.end());
  append_word(png, static_cast<std::uint32_t>(crc32(0, reinterpret_cast<const Bytef*>(body.data()),
                                                    static_cast<uInt>(body.size()))));
}

struct PngSample {
  std::uint32_t width = 0, height = 0;
  std::uint8_t depth = 8,
               color = 2;  // color 0: grey, 2: RGB, 3: palette, 4: grey and alpha, 6: RGBA
  Bytes rows = {};         // without filter bytes
  Bytes palette = {};
};

inline Bytes zlib_of(std::span<const std::byte> plain) {
  uLongf size = compressBound(static_cast<uLong>(plain.size()));
  Bytes packed(size);
  EXPECT_EQ(
      compress2(reinterpret_cast<Bytef*>(packed.data()), &size,
                reinterpret_cast<const Bytef*>(plain.data()), static_cast<uLong>(plain.size()), 6),
      Z_OK);
  packed.resize(size);
  return packed;
}

inline Bytes png_of(const PngSample& sample) {
  Bytes png = bytes_of(std::string_view("\x89PNG\r\n\x1a\n", 8));
  Bytes header;
  append_word(header, sample.width);
  append_word(header, sample.height);
  for (const std::uint8_t value :
       {sample.depth, sample.color, std::uint8_t{0}, std::uint8_t{0}, std::uint8_t{0}})
    header.push_back(std::byte{value});
  append_chunk(png, "IHDR", header);
  if (!sample.palette.empty()) append_chunk(png, "PLTE", sample.palette);
  Bytes lines;
  const std::size_t row = sample.height == 0 ? 0 : sample.rows.size() / sample.height;
  for (std::size_t y = 0; y < sample.height; ++y) {
    lines.push_back(std::byte{0});
    lines.insert(lines.end(), sample.rows.begin() + static_cast<std::ptrdiff_t>(y * row),
                 sample.rows.begin() + static_cast<std::ptrdiff_t>((y + 1) * row));
  }
  append_chunk(png, "IDAT", zlib_of(lines));
  append_chunk(png, "IEND", {});
  return png;
}

/// A PNG of one colour.
inline Bytes flat_png(std::uint32_t width, std::uint32_t height, std::array<std::uint8_t, 3> rgb) {
  PngSample sample{.width = width, .height = height};
  for (std::uint32_t i = 0; i < width * height; ++i)
    for (const std::uint8_t value : rgb) sample.rows.push_back(std::byte{value});
  return png_of(sample);
}

#if TRIACCEL_HAS_IMAGES
struct JpegSample {
  unsigned width = 0, height = 0;
  int channels = 3;                       // 1: grey, 4: CMYK as Adobe's programs store it
  std::vector<std::uint8_t> pixels = {};  // [height][width][channels]
  std::string exif = {};                  // content of an APP1 marker
  bool progressive = false;
};

inline Bytes jpeg_of(const JpegSample& sample) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* out = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &out, &size);
  info.image_width = sample.width;
  info.image_height = sample.height;
  info.input_components = sample.channels;
  info.in_color_space = sample.channels == 1   ? JCS_GRAYSCALE
                        : sample.channels == 3 ? JCS_RGB
                                               : JCS_CMYK;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, 95, TRUE);
  if (sample.progressive) jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  if (!sample.exif.empty())
    jpeg_write_marker(&info, JPEG_APP0 + 1, reinterpret_cast<const JOCTET*>(sample.exif.data()),
                      static_cast<unsigned>(sample.exif.size()));
  const std::size_t row_bytes = sample.width * static_cast<unsigned>(sample.channels);
  while (info.next_scanline < info.image_height) {
    auto* row = const_cast<std::uint8_t*>(sample.pixels.data()) + info.next_scanline * row_bytes;
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  const auto view = std::as_bytes(std::span(out, size));
  Bytes file(view.begin(), view.end());
  std::free(out);
  return file;
}
#endif

/// One array as numpy.save writes it.
inline Bytes npy_of(const std::string& descr, bool fortran, const std::string& shape,
                    std::span<const std::byte> data) {
  std::string header = "{'descr': '" + descr +
                       "', 'fortran_order': " + (fortran ? "True" : "False") +
                       ", 'shape': " + shape + ", }";
  header.resize((header.size() + 10 + 64) / 64 * 64 - 11, ' ');
  header += '\n';
  Bytes file = bytes_of(std::string_view("\x93NUMPY\x01\x00", 8));
  file.push_back(static_cast<std::byte>(header.size() & 0xff));
  file.push_back(static_cast<std::byte>(header.size() >> 8));
  for (const char letter : header) file.push_back(static_cast<std::byte>(letter));
  file.insert(file.end(), data.begin(), data.end());
  return file;
}

struct ZipSample {
  std::string name = {};
  Bytes data = {};
  bool deflated = false;
};

inline void append_little(Bytes& bytes, std::uint64_t value, int count) {
  for (int i = 0; i < count; ++i, value >>= 8)
    bytes.push_back(static_cast<std::byte>(value & 0xff));
}

/// A zip archive, as numpy.savez and savez_compressed write one.
inline Bytes zip_of(const std::vector<ZipSample>& members) {
  Bytes file, directory;
  for (const ZipSample& member : members) {
    Bytes packed = member.data;
    if (member.deflated) {
      packed = zlib_of(member.data);  // less the two bytes before and four bytes behind the stream
      packed = Bytes(packed.begin() + 2, packed.end() - 4);
    }
    const auto sum = crc32(0, reinterpret_cast<const Bytef*>(member.data.data()),
                           static_cast<uInt>(member.data.size()));
    const std::size_t at = file.size();
    const auto common = [&](Bytes& to) {
      append_little(to, 20, 2);
      append_little(to, 0, 2);
      append_little(to, member.deflated ? 8 : 0, 2);
      append_little(to, 0, 4);
      append_little(to, sum, 4);
      append_little(to, packed.size(), 4);
      append_little(to, member.data.size(), 4);
      append_little(to, member.name.size(), 2);
      append_little(to, 0, 2);
    };
    append_little(file, 0x04034b50, 4);
    common(file);
    const Bytes name = bytes_of(member.name);
    file.insert(file.end(), name.begin(), name.end());
    file.insert(file.end(), packed.begin(), packed.end());
    append_little(directory, 0x02014b50, 4);
    append_little(directory, 20, 2);
    common(directory);
    append_little(directory, 0, 10);
    append_little(directory, at, 4);
    directory.insert(directory.end(), name.begin(), name.end());
  }
  const std::size_t at = file.size();
  file.insert(file.end(), directory.begin(), directory.end());
  append_little(file, 0x06054b50, 4);
  append_little(file, 0, 4);
  append_little(file, members.size(), 2);
  append_little(file, members.size(), 2);
  append_little(file, directory.size(), 4);
  append_little(file, at, 4);
  append_little(file, 0, 2);
  return file;
}

}  // namespace triaccel::test
