#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "triaccel/core/state_view.h"

namespace triaccel {

/// The content of a safetensors file: named tensors in order of their data, and metadata.
struct TensorFile {
  std::vector<StateView> tensors =
      {};  // share ownership of the file's bytes, which may be unaligned
  std::map<std::string, std::string> metadata = {};
};

/// Validates the file against the format specification before using it; throws DataError naming the
/// file and the tensor or byte.
TensorFile parse_safetensors(std::shared_ptr<const std::vector<std::byte>> bytes,
                             std::string_view file_name);

TensorFile read_safetensors(const std::filesystem::path& path);

/// Receives the next bytes of a file.
using ByteSink = std::function<void(std::span<const std::byte>)>;

/// Passes the file to `sink` in pieces, without copying tensors. Throws UsageError, before the
/// first byte, for duplicate names or sizes that do not match type and shape.
void write_safetensors(const ByteSink& sink, std::span<const StateView> tensors,
                       const std::map<std::string, std::string>& metadata = {});

/// Writes a file atomically: temporary name, sync, rename. Throws StorageError.
void write_safetensors(const std::filesystem::path& path, std::span<const StateView> tensors,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace triaccel
