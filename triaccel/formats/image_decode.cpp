#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>

#include "triaccel/formats/bad_data.h"
#include "triaccel/formats/image_file.h"

#if TRIACCEL_HAS_IMAGES
#include <jpeglib.h>
// After jpeglib.h, which it needs.
#include <jerror.h>
#include <png.h>
#endif

namespace triaccel {
namespace {

using Bytes = std::span<const std::byte>;

[[noreturn]] void refuse(std::string_view file_name, std::string detail) {
  throw DefectError(Finding{.file = std::string(file_name),
                            .record = -1,
                            .defect = Defect::BrokenImage,
                            .detail = std::move(detail)});
}

}  // namespace

bool can_decode_images() { return TRIACCEL_HAS_IMAGES != 0; }

std::string_view no_image_decoder() {
  return "this program was built without libpng and libjpeg and reads no PNG or JPEG; install "
         "libpng-dev and libjpeg-dev and build again, or give the images as .npz or .safetensors";
}

bool is_image_name(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos || dot == 0) return false;
  std::string end(name.substr(dot + 1));
  std::ranges::transform(end, end.begin(), [](unsigned char letter) {
    return static_cast<char>(letter >= 'A' && letter <= 'Z' ? letter - 'A' + 'a' : letter);
  });
  return end == "png" || end == "jpg" || end == "jpeg";
}

#if TRIACCEL_HAS_IMAGES
namespace {

constexpr std::array<unsigned char, 8> kPngStart = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
constexpr std::array<unsigned char, 3> kJpegStart = {0xff, 0xd8, 0xff};

template <std::size_t N>
bool starts_with(Bytes file, const std::array<unsigned char, N>& start) {
  return file.size() >= N && std::memcmp(file.data(), start.data(), N) == 0;
}

void check_size(std::int64_t width, std::int64_t height, const DecodeOptions& options,
                std::string_view file_name) {
  if (width <= 0 || height <= 0 || width > options.max_pixels / height)
    refuse(file_name,
           text(width, "x", height, " pixels, more than the limit of ", options.max_pixels));
}

// ---------------------------------------------------------------- PNG
// libpng's simplified interface reports errors by its return value; no jump leaves the library.

class [[nodiscard]] PngReader {
 public:
  PngReader(Bytes file, std::string_view file_name) : file_name_(file_name) {
    image_.version = PNG_IMAGE_VERSION;
    if (png_image_begin_read_from_memory(&image_, file.data(), file.size()) == 0) fail();
  }
  ~PngReader() { png_image_free(&image_); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  std::int64_t width() const { return image_.width; }
  std::int64_t height() const { return image_.height; }

  RgbImage read() {
    // 16-bit samples are as bright as their upper bytes, not linear light.
    image_.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;
    // Asked for without alpha, libpng would blend with a background; it is dropped instead.
    const bool alpha = (image_.format & PNG_FORMAT_FLAG_ALPHA) != 0;
    image_.format = alpha ? PNG_FORMAT_RGBA : PNG_FORMAT_RGB;
    RgbImage image{.width = width(), .height = height()};
    image.pixels.resize(PNG_IMAGE_SIZE(image_));
    if (png_image_finish_read(&image_, nullptr, image.pixels.data(), 0, nullptr) == 0) fail();
    if (alpha) {
      const std::size_t count = image.pixels.size() / 4;
      for (std::size_t i = 0; i < count; ++i)
        std::memmove(image.pixels.data() + 3 * i, image.pixels.data() + 4 * i, 3);
      image.pixels.resize(3 * count);
    }
    return image;
  }

 private:
  [[noreturn]] void fail() const { refuse(file_name_, text("PNG: ", image_.message)); }

  png_image image_ = {};
  std::string_view file_name_;
};

// Deflate expands by at most a factor of 1032; a header that promises more lies.
void check_png_size(Bytes file, const PngReader& reader, const DecodeOptions& options,
                    std::string_view file_name) {
  check_size(reader.width(), reader.height(), options, file_name);
  const std::int64_t row_bytes = (reader.width() + 7) / 8;  // at least one bit per pixel
  if (row_bytes * reader.height() / 1032 > static_cast<std::int64_t>(file.size()))
    refuse(file_name, text("PNG: ", reader.width(), "x", reader.height(), " pixels in a file of ",
                           file.size(), " bytes"));
}

// ---------------------------------------------------------------- JPEG
// libjpeg reports an error by a jump. Each function that sets its target has no object with a
// destructor, nor has what it calls.

constexpr int kMaxScans = 500;  // a progressive file may repeat them at will

struct JpegState {
  jpeg_decompress_struct info;
  jpeg_error_mgr errors;
  jpeg_progress_mgr progress;
  std::jmp_buf target;
  std::array<char, JMSG_LENGTH_MAX> message;
};

JpegState& state_of(j_common_ptr info) { return *static_cast<JpegState*>(info->client_data); }

[[noreturn]] void jump_out(j_common_ptr info) {
  JpegState& state = state_of(info);
  info->err->format_message(info, state.message.data());
  std::longjmp(state.target, 1);
}

/// libjpeg fills in for missing data with a warning; a damaged image must not pass for a sound one.
void note_message(j_common_ptr info, int level) {
  if (level >= 0) return;
  switch (info->err->msg_code) {
    case JWRN_JPEG_EOF:
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_ARITH_BAD_CODE:
    case JWRN_MUST_RESYNC:
      jump_out(info);
    default:
      return;  // harmless and common, such as extra bytes before a marker
  }
}

void limit_scans(j_common_ptr info) {
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <= kMaxScans) return;
  JpegState& state = state_of(info);
  std::snprintf(state.message.data(), state.message.size(), "more than %d scans", kMaxScans);
  std::longjmp(state.target, 1);
}

bool read_jpeg_header(JpegState& state, Bytes file) {
  if (setjmp(state.target) != 0) return false;
  jpeg_create_decompress(&state.info);
  state.info.client_data = &state;
  state.info.progress = &state.progress;
  jpeg_save_markers(&state.info, JPEG_APP0 + 1, 0xffff);  // EXIF
  jpeg_mem_src(&state.info, reinterpret_cast<const unsigned char*>(file.data()),
               static_cast<unsigned long>(file.size()));
  jpeg_read_header(&state.info, TRUE);
  return true;
}

bool start_jpeg(JpegState& state, unsigned reduction) {
  if (setjmp(state.target) != 0) return false;
  const J_COLOR_SPACE space = state.info.jpeg_color_space;
  state.info.out_color_space = space == JCS_CMYK || space == JCS_YCCK ? JCS_CMYK : JCS_RGB;
  state.info.scale_num = 1;
  state.info.scale_denom = reduction;
  jpeg_start_decompress(&state.info);
  return true;
}

bool read_jpeg_rows(JpegState& state, std::uint8_t* rows, std::size_t row_bytes) {
  if (setjmp(state.target) != 0) return false;
  while (state.info.output_scanline < state.info.output_height) {
    JSAMPROW row = rows + state.info.output_scanline * row_bytes;
    jpeg_read_scanlines(&state.info, &row, 1);
  }
  jpeg_finish_decompress(&state.info);
  return true;
}

/// What the bytes of an EXIF marker say about the orientation, 1 to 8; 1: as stored.
int orientation_in(std::span<const unsigned char> marker) {
  constexpr std::string_view kExif("Exif\0\0", 6);
  if (marker.size() < kExif.size() + 8 || std::memcmp(marker.data(), kExif.data(), 6) != 0)
    return 1;
  const auto tiff = marker.subspan(6);
  const bool little = tiff[0] == 'I';
  const auto number = [&](std::size_t at, std::size_t bytes) -> std::size_t {
    if (at > tiff.size() || bytes > tiff.size() - at) return 0;
    std::size_t value = 0;
    for (std::size_t i = 0; i < bytes; ++i)
      value = value << 8 | tiff[at + (little ? bytes - 1 - i : i)];
    return value;
  };
  constexpr std::size_t kOrientation = 0x112, kShort = 3;
  const std::size_t directory = number(4, 4), entries = number(directory, 2);
  for (std::size_t i = 0; i < entries && directory + 2 + 12 * i < tiff.size(); ++i) {
    const std::size_t at = directory + 2 + 12 * i;
    if (number(at, 2) != kOrientation || number(at + 2, 2) != kShort) continue;
    const std::size_t value = number(at + 8, 2);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

class [[nodiscard]] JpegReader {
 public:
  JpegReader(Bytes file, std::string_view file_name) : file_name_(file_name) {
    state_.info.err = jpeg_std_error(&state_.errors);
    state_.errors.error_exit = jump_out;
    state_.errors.emit_message = note_message;
    state_.errors.output_message = [](j_common_ptr) {};
    state_.progress.progress_monitor = limit_scans;
    state_.info.client_data = &state_;
    if (!read_jpeg_header(state_, file)) {
      jpeg_destroy_decompress(&state_.info);  // no destructor runs after a throw
      fail();
    }
    for (auto* marker = state_.info.marker_list; marker != nullptr; marker = marker->next)
      if (orientation_ == 1) orientation_ = orientation_in({marker->data, marker->data_length});
  }
  ~JpegReader() { jpeg_destroy_decompress(&state_.info); }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;

  std::int64_t width() const { return state_.info.image_width; }
  std::int64_t height() const { return state_.info.image_height; }
  int orientation() const { return orientation_; }

  RgbImage read(std::int64_t shorter_side) {
    unsigned reduction = 1;
    while (shorter_side > 0 && reduction < 8 &&
           std::min(width(), height()) / (2 * reduction) >= 2 * shorter_side)
      reduction *= 2;
    if (!start_jpeg(state_, reduction)) fail();
    RgbImage image{.width = state_.info.output_width, .height = state_.info.output_height};
    const auto components = static_cast<std::size_t>(state_.info.output_components);
    const std::size_t row_bytes = static_cast<std::size_t>(image.width) * components;
    image.pixels.resize(row_bytes * static_cast<std::size_t>(image.height));
    if (!read_jpeg_rows(state_, image.pixels.data(), row_bytes)) fail();
    if (components == 4) make_rgb(image);
    return image;
  }

 private:
  [[noreturn]] void fail() const { refuse(file_name_, text("JPEG: ", state_.message.data())); }

  /// CMYK to RGB. Adobe's programs store how much light is left instead of how much ink there is.
  void make_rgb(RgbImage& image) const {
    const int flip = state_.info.saw_Adobe_marker ? 0 : 255;
    const std::size_t count = image.pixels.size() / 4;
    for (std::size_t i = 0; i < count; ++i) {
      const int black = image.pixels[4 * i + 3] ^ flip;
      for (std::size_t c = 0; c < 3; ++c)
        image.pixels[3 * i + c] =
            static_cast<std::uint8_t>(((image.pixels[4 * i + c] ^ flip) * black + 127) / 255);
    }
    image.pixels.resize(3 * count);
  }

  JpegState state_ = {};
  int orientation_ = 1;
  std::string_view file_name_;
};

/// Rotates and mirrors an image as EXIF's orientation asks.
RgbImage oriented(RgbImage image, int orientation) {
  if (orientation == 1) return image;
  const bool transposed = orientation >= 5;
  const bool from_right =
      orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const bool from_bottom =
      orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  RgbImage turned{.width = transposed ? image.height : image.width,
                  .height = transposed ? image.width : image.height};
  turned.pixels.resize(image.pixels.size());
  std::uint8_t* out = turned.pixels.data();
  for (std::int64_t y = 0; y < turned.height; ++y)
    for (std::int64_t x = 0; x < turned.width; ++x, out += 3) {
      const std::int64_t column = transposed ? y : x, row = transposed ? x : y;
      const std::int64_t from_x = from_right ? image.width - 1 - column : column;
      const std::int64_t from_y = from_bottom ? image.height - 1 - row : row;
      std::memcpy(out, image.pixels.data() + (from_y * image.width + from_x) * 3, 3);
    }
  return turned;
}

[[noreturn]] void refuse_unknown(Bytes file, std::string_view file_name) {
  std::string start;
  for (std::size_t i = 0; i < std::min<std::size_t>(file.size(), 12); ++i) {
    const char letter = static_cast<char>(file[i]);
    start += letter >= ' ' && letter <= '~' ? letter : '.';
  }
  refuse(file_name, text("neither PNG nor JPEG; it begins with '", start, "'"));
}

}  // namespace

RgbImage decode_image(Bytes file, std::string_view file_name, const DecodeOptions& options) {
  if (starts_with(file, kPngStart)) {
    PngReader reader(file, file_name);
    check_png_size(file, reader, options, file_name);
    return reader.read();
  }
  if (!starts_with(file, kJpegStart)) refuse_unknown(file, file_name);
  JpegReader reader(file, file_name);
  check_size(reader.width(), reader.height(), options, file_name);
  return oriented(reader.read(options.shorter_side), reader.orientation());
}

ImageSize read_image_size(Bytes file, std::string_view file_name) {
  if (starts_with(file, kPngStart)) {
    const PngReader reader(file, file_name);
    return {reader.width(), reader.height()};
  }
  if (!starts_with(file, kJpegStart)) refuse_unknown(file, file_name);
  const JpegReader reader(file, file_name);
  if (reader.orientation() >= 5) return {reader.height(), reader.width()};
  return {reader.width(), reader.height()};
}

#else

RgbImage decode_image(Bytes, std::string_view file_name, const DecodeOptions&) {
  refuse(file_name, std::string(no_image_decoder()));
}

ImageSize read_image_size(Bytes, std::string_view file_name) {
  refuse(file_name, std::string(no_image_decoder()));
}

#endif

}  // namespace triaccel
