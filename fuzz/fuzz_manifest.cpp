#include "fuzz/fuzz_target.h"
#include "triaccel/formats/manifest.h"

using namespace triaccel;

namespace {

void parse(std::string_view written) {
  fuzz::parse_or_refuse<StorageError>([&] {
    const Manifest manifest = parse_manifest(written, "f");
    fuzz::promise(parse_manifest(manifest_text(manifest), "f") == manifest);
    for (const ManifestFile& file : manifest.files)
      fuzz::promise(file.name.find('/') == std::string::npos && file.sums.size >= 0);
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input = fuzz::text_of(data, size);
  parse(input);
  // The checksum rejects random changes; recomputing it reaches the checks behind it.
  parse(seal_manifest(input));
  return 0;
}
