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

/// What a safetensors file holds: named tensors in the order of their bytes, and free text.
struct TensorFile {
  std::vector<StateView> tensors =
      {};  // they own the file's bytes together; bytes may be unaligned
  std::map<std::string, std::string> metadata = {};
};

/// Checks everything the format's specification asks for before anything is built from it; throws
/// DataError, which names the file and the tensor or byte at fault.
TensorFile parse_safetensors(std::shared_ptr<const std::vector<std::byte>> bytes,
                             std::string_view file_name);

TensorFile read_safetensors(const std::filesystem::path& path);

/// Takes the next bytes of a file.
using ByteSink = std::function<void(std::span<const std::byte>)>;

/// Hands the file to `sink` piece by piece, copying no tensor. Throws UsageError, before the first
/// byte, for a name given twice or bytes that are not what type and shape say.
void write_safetensors(const ByteSink& sink, std::span<const StateView> tensors,
                       const std::map<std::string, std::string>& metadata = {});

/// Writes a file that is there in full or not at all: under a temporary name, synced, renamed.
/// Throws StorageError.
void write_safetensors(const std::filesystem::path& path, std::span<const StateView> tensors,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace triaccel
