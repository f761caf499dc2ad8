#include "triaccel/formats/text_corpus.h"

#include <gtest/gtest.h>

#include "tests/formats/sample_files.h"

namespace triaccel {
namespace {

using test::bytes_of;
using test::TestFolder;

TextCorpus parsed(std::string_view written, BadDataRule rule = {}) {
  DefectLog log(rule);
  return parse_text_corpus(bytes_of(written), "t", log);
}

TEST(ParseTextCorpus, SplitsByPositionAndEncodesBySortedBytes) {
  const TextCorpus corpus = parsed("banana banana banana");
  EXPECT_EQ(corpus.vocabulary, (std::vector<std::uint8_t>{' ', 'a', 'b', 'n'}));
  EXPECT_EQ(corpus.train.size(), 18u);
  EXPECT_EQ(corpus.train[0], 2);
  EXPECT_EQ(decode_tokens(corpus.train, corpus.vocabulary), "banana banana bana");
  EXPECT_EQ(decode_tokens(corpus.validation, corpus.vocabulary), "na");
}

TEST(ParseTextCorpus, TakesEveryByteOfUtf8) {
  std::string all;
  for (int byte = ' '; byte < 256; ++byte) all.push_back(static_cast<char>(byte));
  const TextCorpus corpus = parsed(all);
  EXPECT_EQ(corpus.vocabulary.size(), 224u);
  EXPECT_EQ(decode_tokens(corpus.train, corpus.vocabulary) +
                decode_tokens(corpus.validation, corpus.vocabulary),
            all);
}

TEST(ParseTextCorpus, RefusesWhatIsTooShortToSplit) {
  for (std::size_t n = 0; n < 20; ++n) EXPECT_THROW(parsed(std::string(n, 'a')), DataError) << n;
  EXPECT_EQ(parsed(std::string(20, 'a')).validation.size(), 2u);
}

TEST(ParseTextCorpus, RefusesBinaryAndSkipDropsTheByte) {
  std::string written(5000, 'a');
  written[77] = '\0';
  EXPECT_THROW(parsed(written), DataError);
  const TextCorpus corpus = parsed(written, BadData::Skip);
  EXPECT_EQ(corpus.train.size() + corpus.validation.size(), 4999u);
}

TEST(ReadTextCorpus, FindsEitherName) {
  const TestFolder folder;
  folder.write("input.txt", bytes_of("First Citizen:\nBefore we proceed"));
  EXPECT_EQ(read_text_corpus(folder.path()).vocabulary.front(), '\n');
  folder.write("tinyshakespeare.txt", bytes_of(std::string(40, 'x')));
  EXPECT_EQ(read_text_corpus(folder.path()).vocabulary.size(), 1u);
}

TEST(DecodeTokens, RefusesATokenOutsideTheVocabulary) {
  const std::vector<std::uint8_t> vocabulary = {'a'}, tokens = {1};
  EXPECT_THROW(decode_tokens(tokens, vocabulary), UsageError);
}

}  // namespace
}  // namespace triaccel
