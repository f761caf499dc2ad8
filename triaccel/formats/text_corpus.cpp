#include "triaccel/formats/text_corpus.h"

#include <array>
#include <bitset>

#include "triaccel/formats/file_bytes.h"

namespace triaccel {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxCorpusBytes = std::uint64_t{64} << 20;
constexpr std::size_t kSmallestText = 20;  // so that each split predicts at least one character

// Control characters other than tab, line feed, vertical tab, form feed and carriage return.
bool is_binary(std::uint8_t byte) { return byte < 0x20 && (byte < '\t' || byte > '\r'); }

}  // namespace

TextCorpus parse_text_corpus(std::span<const std::byte> file, std::string_view file_name,
                             DefectLog& log) {
  TextCorpus corpus{.name = "text"};
  std::vector<std::uint8_t> bytes;
  bytes.reserve(file.size());
  std::bitset<256> seen;
  for (std::size_t i = 0; i < file.size(); ++i) {
    const auto byte = std::to_integer<std::uint8_t>(file[i]);
    if (is_binary(byte)) {
      log.add(file_name, static_cast<std::int64_t>(i), Defect::BinaryByte,
              text("code ", int{byte}, "; is it a text file?"));
      continue;
    }
    bytes.push_back(byte);
    seen.set(byte);
  }
  log.close_split(file_name, static_cast<std::int64_t>(file.size()),
                  static_cast<std::int64_t>(bytes.size()));
  if (bytes.size() < kSmallestText) {
    log.add(file_name, -1, Defect::EmptySplit,
            text(bytes.size(), " characters, at least ", kSmallestText,
                 " are needed for a training and a validation split"));
    return corpus;
  }

  std::array<std::uint8_t, 256> token_of{};
  for (std::size_t byte = 0; byte < seen.size(); ++byte) {
    if (!seen.test(byte)) continue;
    token_of[byte] = static_cast<std::uint8_t>(corpus.vocabulary.size());
    corpus.vocabulary.push_back(static_cast<std::uint8_t>(byte));
  }
  for (std::uint8_t& byte : bytes) byte = token_of[byte];
  const auto cut = bytes.begin() + static_cast<std::ptrdiff_t>(bytes.size() * 9 / 10);
  corpus.validation.assign(cut, bytes.end());
  bytes.erase(cut, bytes.end());
  corpus.train = std::move(bytes);
  return corpus;
}

TextCorpus read_text_corpus(const fs::path& folder, BadDataRule rule) {
  DefectLog log(rule);
  fs::path file = folder / "tinyshakespeare.txt";
  if (!find_plain_or_gzip(file) && find_plain_or_gzip(folder / "input.txt"))
    file = folder / "input.txt";
  TextCorpus corpus;
  try {
    corpus = parse_text_corpus(read_plain_or_gzip(file, kMaxCorpusBytes), file.string(), log);
  } catch (const DefectError& error) {
    log.add(error.finding);
  }
  corpus.findings = log.take();
  return corpus;
}

std::string decode_tokens(std::span<const std::uint8_t> tokens,
                          std::span<const std::uint8_t> vocabulary) {
  std::string decoded;
  decoded.reserve(tokens.size());
  for (const std::uint8_t token : tokens) {
    require(token < vocabulary.size(), "decode_tokens", "token ", int{token},
            " is outside the vocabulary of ", vocabulary.size());
    decoded.push_back(static_cast<char>(vocabulary[token]));
  }
  return decoded;
}

}  // namespace triaccel
