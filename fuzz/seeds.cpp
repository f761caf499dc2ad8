// Writes a small valid input or two for every fuzz target: fuzz_seeds FOLDER
#include <zlib.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "triaccel/formats/manifest.h"
#include "triaccel/formats/safetensors.h"
#include "triaccel/formats/toml_document.h"

#if TRIACCEL_HAS_IMAGES
#include <jpeglib.h>
#endif

namespace {

using namespace triaccel;
namespace fs = std::filesystem;

void write(const fs::path& file, std::string_view bytes) {
  fs::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << bytes;
}

std::string words(std::initializer_list<unsigned> values) {
  std::string bytes;
  for (const unsigned value : values)
    for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>(value >> shift));
  return bytes;
}

std::string gzip_of(const std::string& plain) {
  std::string packed(plain.size() + 64, '\0');
  z_stream stream{};
  if (deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY) != Z_OK)
    return {};
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(plain.data()));
  stream.avail_in = static_cast<uInt>(plain.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  deflate(&stream, Z_FINISH);
  packed.resize(packed.size() - stream.avail_out);
  deflateEnd(&stream);
  return packed;
}

std::string cloud() {
  std::string bytes;
  for (int value = 0; value < 3 * 1024; ++value) {
    bytes.push_back(static_cast<char>(value & 0xff));
    bytes.push_back(static_cast<char>(value % 1024 >> 8));
  }
  return bytes;
}

std::string safetensors() {
  const std::vector<StateView> tensors = {
      number_state("layer.weight", std::vector<float>{1, 2, 3, 4}),
      number_state("step", std::vector<std::int64_t>{7}),
      number_state("mask", std::vector<std::uint8_t>{})};
  std::string file;
  write_safetensors(
      [&](std::span<const std::byte> piece) {
        file.append(reinterpret_cast<const char*>(piece.data()), piece.size());
      },
      tensors, {{"format", "pt"}});
  return file;
}

std::string manifest() {
  const std::string bytes = safetensors();
  return manifest_text({.step = 12,
                        .config_hash = 34,
                        .commit = "0123abc",
                        .torch_version = "2.11.0",
                        .files = {{"weights.safetensors", sum_of(std::as_bytes(std::span(bytes)))},
                                  {"state.safetensors", sum_of({})}}});
}

std::string little(std::uint64_t value, int bytes) {
  std::string out;
  for (int i = 0; i < bytes; ++i, value >>= 8) out.push_back(static_cast<char>(value & 0xff));
  return out;
}

std::uint32_t sum32(const std::string& bytes) {
  return static_cast<std::uint32_t>(
      crc32(0, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(bytes.size())));
}

std::string npy(const std::string& type, const std::string& shape, const std::string& data) {
  const std::string header =
      "{'descr': '" + type + "', 'fortran_order': False, 'shape': " + shape + ", }\n";
  return std::string("\x93NUMPY\x01\x00", 8) + little(header.size(), 2) + header + data;
}

/// Stored members.
std::string npz(const std::vector<std::pair<std::string, std::string>>& members) {
  std::string file, directory;
  for (const auto& [name, data] : members) {
    const std::string common = little(20, 2) + little(0, 8) + little(sum32(data), 4) +
                               little(data.size(), 4) + little(data.size(), 4) +
                               little(name.size(), 2) + little(0, 2);
    directory += "PK\1\2" + little(20, 2) + common + little(0, 10) + little(file.size(), 4) + name;
    file += "PK\3\4" + common + name + data;
  }
  return file + directory + "PK\5\6" + little(0, 4) + little(members.size(), 2) +
         little(members.size(), 2) + little(directory.size(), 4) + little(file.size(), 4) +
         little(0, 2);
}

std::string png() {
  const auto chunk = [](const std::string& type, const std::string& data) {
    return words({static_cast<unsigned>(data.size())}) + type + data + words({sum32(type + data)});
  };
  const std::string line = std::string(1, '\0') + "rgbrgb";
  std::string packed(128, '\0');
  uLongf size = packed.size();
  const std::string lines = line + line;
  compress(reinterpret_cast<Bytef*>(packed.data()), &size,
           reinterpret_cast<const Bytef*>(lines.data()), static_cast<uLong>(lines.size()));
  packed.resize(size);
  return "\x89PNG\r\n\x1a\n" + chunk("IHDR", words({2, 2}) + std::string("\x08\x02\0\0\0", 5)) +
         chunk("IDAT", packed) + chunk("IEND", "");
}

#if TRIACCEL_HAS_IMAGES
std::string jpeg() {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* out = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &out, &size);
  info.image_width = info.image_height = 16;
  info.input_components = 3;
  info.in_color_space = JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  const std::string exif("Exif\0\0II*\0\x08\0\0\0\1\0\x12\1\3\0\1\0\0\0\6\0\0\0", 28);
  jpeg_write_marker(&info, JPEG_APP0 + 1, reinterpret_cast<const JOCTET*>(exif.data()),
                    static_cast<unsigned>(exif.size()));
  std::string row(48, 'p');
  auto* pixels = reinterpret_cast<JSAMPLE*>(row.data());
  while (info.next_scanline < info.image_height) jpeg_write_scanlines(&info, &pixels, 1);
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  std::string file(reinterpret_cast<char*>(out), size);
  std::free(out);
  return file;
}
#endif

void write_seeds(const fs::path& root) {
  const std::string images = words({0x803, 2, 3, 4}) + std::string(24, 'p');
  const std::string labels = words({0x801, 3}) + std::string("\0\1\2", 3);
  write(root / "idx/images", images);
  write(root / "idx/labels", labels);
  const std::string pixels(3072, 'p');
  write(root / "cifar/ten", "\1" + pixels + "\2" + pixels);
  write(root / "cifar/hundred", "\1\2" + pixels + "\3\4" + pixels);
  const std::string names = "chair\ntable\n";
  write(root / "point_cloud/two", static_cast<char>(names.size()) + ("\2" + names) +
                                      std::string("\0\1", 2) + cloud() + cloud());
  write(root / "text/play", "First Citizen:\nBefore we proceed any further, hear me speak.\n");
  write(root / "toml/run",
        "name = \"run\"\n[train]\nepochs = 3\nlr = 1e-3\nema = true # off\nwarm = 0x10\n"
        "[data]\nroot = 'a\\b'\n\"odd key\" = \"\"\"x\ny\"\"\"\nwhen.at = inf\n");
  write(root / "toml/refused", "a = [1, {b = 2}]\nc.d.e = 2020-01-01T00:00:00Z\n[[f]]\n");
  write(root / "gzip/labels", gzip_of(labels));
  write(root / "gzip/zeros", gzip_of(std::string(100'000, '\0')));
  write(root / "safetensors/three", safetensors());
  const std::string x = npy("|u1", "(2, 1, 1)", "ab");
  const std::string y = npy("<i4", "(2,)", little(0, 4) + little(1, 4));
  write(root / "npz/array", std::string(1, '\0') + npy(">f8", "(1, 2)", std::string(16, '?')));
  write(root / "npz/archive", "\1" + npz({{"x.npy", x}, {"y.npy", y}}));
  write(root / "image/png", png());
#if TRIACCEL_HAS_IMAGES
  write(root / "image/jpeg", jpeg());
#endif
  const std::string sealed = manifest();
  write(root / "manifest/sealed", sealed);
  // Without its checksum, so that the target can recompute it.
  write(root / "manifest/open", std::string_view(sealed).substr(0, sealed.rfind(",")));
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) {
    std::fprintf(stderr, "usage: %s FOLDER\n", arguments[0]);
    return 2;
  }
  write_seeds(arguments[1]);
  return 0;
}
