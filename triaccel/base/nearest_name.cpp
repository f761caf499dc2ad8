#include "triaccel/base/nearest_name.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "triaccel/base/error.h"

namespace triaccel {
namespace {

/// Levenshtein distance over one rolling row.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string nearest_name(std::string_view written, std::span<const std::string> known) {
  std::string_view best;
  std::size_t best_distance = std::max<std::size_t>(2, written.size() / 2) + 1;
  for (const std::string& name : known) {
    const std::size_t distance = edit_distance(written, name);
    if (distance >= best_distance) continue;
    best = name;
    best_distance = distance;
  }
  return std::string(best);
}

std::string suggestion(std::string_view written, std::span<const std::string> known) {
  if (const std::string near = nearest_name(written, known); !near.empty())
    return text("; did you mean '", near, "'?");
  std::string all;
  for (const std::string& name : known) all += (all.empty() ? "" : ", ") + name;
  return "; known: " + all;
}

}  // namespace triaccel
