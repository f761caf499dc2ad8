#include <memory>
#include <vector>

#include "fuzz/fuzz_target.h"
#include "triaccel/formats/safetensors.h"

using namespace triaccel;

namespace {

using Bytes = std::vector<std::byte>;

TensorFile parse(Bytes bytes) {
  return parse_safetensors(std::make_shared<const Bytes>(std::move(bytes)), "f");
}

void check_round_trip(const TensorFile& file) {
  Bytes written;
  write_safetensors(
      [&](std::span<const std::byte> piece) {
        written.insert(written.end(), piece.begin(), piece.end());
      },
      file.tensors, file.metadata);
  const TensorFile back = parse(std::move(written));
  fuzz::promise(back.metadata == file.metadata && back.tensors.size() == file.tensors.size());
  std::size_t bytes = 0, bytes_back = 0;
  for (const StateView& tensor : file.tensors) bytes += tensor.bytes.size();
  for (const StateView& tensor : back.tensors) bytes_back += tensor.bytes.size();
  fuzz::promise(bytes == bytes_back);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = fuzz::bytes_of(data, size);
  fuzz::parse_or_refuse<DataError>(
      [&] { check_round_trip(parse(Bytes(bytes.begin(), bytes.end()))); });
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned int seed) {
  return fuzz::mutate_safetensors(data, size, max_size, seed);
}
