#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "triaccel/base/error.h"
#include "triaccel/formats/safetensors.h"

namespace triaccel {
namespace {

using Bytes = std::vector<std::byte>;
using Metadata = std::map<std::string, std::string>;

StateView random_tensor(std::string name) {
  const auto type = static_cast<ElementType>(*rc::gen::inRange(0, 10));
  const auto shape = *rc::gen::resize(
      4, rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange<std::int64_t>(0, 5)));
  std::int64_t bytes = size_of(type);
  for (const std::int64_t size : shape) bytes *= size;
  auto data =
      std::make_shared<std::vector<std::uint8_t>>(*rc::gen::container<std::vector<std::uint8_t>>(
          static_cast<std::size_t>(bytes), rc::gen::arbitrary<std::uint8_t>()));
  return {.name = std::move(name),
          .type = type,
          .shape = shape,
          .bytes = std::as_bytes(std::span(*data)),
          .owner = data};
}

/// Any text that is UTF-8: here, of one byte a letter, with quotes and control characters.
rc::Gen<std::string> random_text() {
  return rc::gen::container<std::string>(rc::gen::inRange<char>(1, 127));
}

std::vector<StateView> random_tensors() {
  std::vector<StateView> tensors;
  for (const std::string& name :
       *rc::gen::resize(8, rc::gen::unique<std::vector<std::string>>(random_text())))
    tensors.push_back(random_tensor(name));
  return tensors;
}

Bytes file_with(const std::vector<StateView>& tensors, const Metadata& metadata) {
  Bytes file;
  write_safetensors(
      [&](std::span<const std::byte> bytes) {
        file.insert(file.end(), bytes.begin(), bytes.end());
      },
      tensors, metadata);
  return file;
}

RC_GTEST_PROP(SafetensorsProperty, WhatIsWrittenIsRead, ()) {
  const std::vector<StateView> tensors = random_tensors();
  const auto metadata =
      *rc::gen::resize(5, rc::gen::container<Metadata>(random_text(), random_text()));
  const TensorFile file =
      parse_safetensors(std::make_shared<const Bytes>(file_with(tensors, metadata)), "file");
  RC_ASSERT(file.metadata == metadata);
  RC_ASSERT(file.tensors.size() == tensors.size());
  for (const StateView& tensor : tensors) {
    const auto found =
        std::find_if(file.tensors.begin(), file.tensors.end(),
                     [&](const StateView& candidate) { return candidate.name == tensor.name; });
    RC_ASSERT(found != file.tensors.end());
    RC_ASSERT(found->type == tensor.type);
    RC_ASSERT(found->shape == tensor.shape);
    RC_ASSERT(std::equal(found->bytes.begin(), found->bytes.end(), tensor.bytes.begin(),
                         tensor.bytes.end()));
  }
}

/// Reads a file that may be anything; every byte it hands out must be there.
void read_if_valid(Bytes file) {
  try {
    const TensorFile parsed =
        parse_safetensors(std::make_shared<const Bytes>(std::move(file)), "file");
    unsigned sum = 0;
    for (const StateView& tensor : parsed.tensors)
      for (const std::byte byte : tensor.bytes) sum += std::to_integer<unsigned>(byte);
    RC_ASSERT(sum < UINT_MAX);
  } catch (const DataError&) {
  }
}

RC_GTEST_PROP(SafetensorsProperty, ChangedBytesNeverCrash, ()) {
  Bytes file = file_with(random_tensors(), {{"format", "triaccel"}});
  const auto changes = *rc::gen::inRange(1, 6);
  for (int i = 0; i < changes; ++i)
    file[*rc::gen::inRange<std::size_t>(0, file.size())] =
        static_cast<std::byte>(*rc::gen::arbitrary<std::uint8_t>());
  read_if_valid(std::move(file));
}

RC_GTEST_PROP(SafetensorsProperty, MovedPiecesOfHeadersNeverCrash, ()) {
  Bytes file = file_with(random_tensors(), {});
  const auto position = [&] { return *rc::gen::inRange<std::size_t>(8, file.size()); };
  const auto at = [&](std::size_t i) { return file.begin() + static_cast<std::ptrdiff_t>(i); };
  const auto [begin, end] = std::minmax({position(), position()});
  const Bytes piece(at(begin), at(end));
  file.insert(at(position()), piece.begin(), piece.end());
  read_if_valid(std::move(file));
}

RC_GTEST_PROP(SafetensorsProperty, AnyBytesNeverCrash, (const std::vector<std::uint8_t>& bytes)) {
  const auto data = std::as_bytes(std::span(bytes));
  read_if_valid(Bytes(data.begin(), data.end()));
}

}  // namespace
}  // namespace triaccel
