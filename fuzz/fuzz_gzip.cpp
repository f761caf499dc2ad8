#include "fuzz/fuzz_target.h"
#include "triaccel/formats/file_bytes.h"

using namespace triaccel;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  for (const std::uint64_t limit : {std::uint64_t{0}, std::uint64_t{100}, std::uint64_t{1} << 22}) {
    fuzz::parse_or_refuse<DataError>([&] {
      fuzz::promise(inflate_gzip(fuzz::bytes_of(data, size), limit, "f").size() <= limit);
    });
  }
  return 0;
}
