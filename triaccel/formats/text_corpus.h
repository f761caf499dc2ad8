#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "triaccel/formats/bad_data.h"

namespace triaccel {

/// A text as character-level tokens: token t represents the byte vocabulary[t].
struct TextCorpus {
  std::string name = {};
  std::vector<std::uint8_t> vocabulary = {};  // the distinct bytes, ascending
  std::vector<std::uint8_t> train = {};       // tokens of the first 90 %
  std::vector<std::uint8_t> validation = {};  // tokens of the rest
  std::vector<Finding> findings = {};
};

TextCorpus parse_text_corpus(std::span<const std::byte> file, std::string_view file_name,
                             DefectLog& log);

/// tinyshakespeare.txt (or input.txt, its original name) in `folder`.
TextCorpus read_text_corpus(const std::filesystem::path& folder, BadDataRule rule = {});

/// Bytes back from tokens.
std::string decode_tokens(std::span<const std::uint8_t> tokens,
                          std::span<const std::uint8_t> vocabulary);

}  // namespace triaccel
