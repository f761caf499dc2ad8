#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "triaccel/base/random.h"

namespace triaccel {

/// Writes a text with something to learn in it: words of a small vocabulary in random order.
inline void write_text(const std::filesystem::path& folder) {
  const std::vector<std::string> words = {"the ", "fox ", "saw ", "a ", "dog ", "and ", "ran.\n"};
  std::ofstream out(folder / "input.txt");
  for (std::uint64_t i = 0; i < 4000; ++i) out << words[random_words(3, i, 0).words[0] % 7];
}

/// Forty clouds of a shape each, a box at a place of its own.
inline void write_clouds(const std::filesystem::path& folder) {
  std::ofstream names(folder / "shape_names.txt");
  for (int label = 0; label < 40; ++label) names << "shape" << label << "\n";
  for (const std::string split : {"train", "test"}) {
    std::ofstream clouds(folder / (split + "_1024_q10.u16"), std::ios::binary);
    std::ofstream labels(folder / (split + "_labels.u8"), std::ios::binary);
    for (std::uint64_t label = 0; label < 40; ++label) {
      labels.put(static_cast<char>(label));
      for (std::uint64_t i = 0; i < 3 * 1024; ++i) {
        const std::uint64_t middle = i < 1024 ? 100 + 20 * label : 512;
        const std::uint64_t at = middle + random_words(label, i, split.size()).words[0] % 100;
        clouds.put(static_cast<char>(at % 256)).put(static_cast<char>(at / 256));
      }
    }
  }
}

}  // namespace triaccel
