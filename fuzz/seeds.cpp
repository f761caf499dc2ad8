// Writes a small valid input or two for every fuzz target: fuzz_seeds FOLDER
#include <zlib.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "triaccel/formats/manifest.h"
#include "triaccel/formats/safetensors.h"
#include "triaccel/formats/toml_document.h"

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
