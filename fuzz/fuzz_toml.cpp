#include <cmath>

#include "fuzz/fuzz_target.h"
#include "triaccel/formats/toml_document.h"

using namespace triaccel;

namespace {

bool same(const TomlValue& a, const TomlValue& b) {
  const double* x = std::get_if<double>(&a);
  const double* y = std::get_if<double>(&b);
  return a == b || (x != nullptr && y != nullptr && std::isnan(*x) && std::isnan(*y));
}

std::vector<TomlEntry> reparsed(const std::string& written) {
  try {
    return parse_toml(written, "f");
  } catch (const UsageError&) {
    fuzz::promise(false);
    return {};
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::parse_or_refuse<UsageError>([&] {
    const std::vector<TomlEntry> entries = parse_toml(fuzz::text_of(data, size), "f");
    const std::string written = to_toml(entries);
    if (written.size() > (1u << 20)) return;  // escapes made it longer than parse_toml takes
    const std::vector<TomlEntry> back = reparsed(written);
    fuzz::promise(back.size() == entries.size());
    fuzz::promise(to_toml(back) == written);
    if (back.size() == 1) fuzz::promise(same(back[0].value, entries[0].value));
  });
  return 0;
}
