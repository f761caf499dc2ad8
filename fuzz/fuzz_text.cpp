#include "fuzz/fuzz_target.h"
#include "triaccel/formats/text_corpus.h"

using namespace triaccel;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto file = fuzz::bytes_of(data, size);
  fuzz::parse_or_refuse<DataError>([&] {
    DefectLog log;
    const TextCorpus corpus = parse_text_corpus(file, "f", log);
    fuzz::promise(decode_tokens(corpus.train, corpus.vocabulary) +
                      decode_tokens(corpus.validation, corpus.vocabulary) ==
                  fuzz::text_of(data, size));
  });
  for (const BadData mode : {BadData::Skip, BadData::Report}) {
    fuzz::parse_or_refuse<DataError>([&] {
      DefectLog log(mode);
      parse_text_corpus(file, "f", log);
    });
  }
  return 0;
}
