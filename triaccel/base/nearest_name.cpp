#include "triaccel/base/nearest_name.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "triaccel/base/error.h"

namespace triaccel {
namespace {

/// Insertions, deletions, replacements and swaps of neighbours that make `a` into `b`.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> rows(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  std::iota(rows[0].begin(), rows[0].end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    rows[i][0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      rows[i][j] = std::min({rows[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1),
                             rows[i][j - 1] + 1, rows[i - 1][j] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        rows[i][j] = std::min(rows[i][j], rows[i - 2][j - 2] + 1);
    }
  }
  return rows[a.size()][b.size()];
}

}  // namespace

std::string nearest_name(std::string_view written, std::span<const std::string> known) {
  std::string_view best;
  const std::size_t dashes = std::min(written.find_first_not_of('-'), written.size());
  const std::size_t letters = std::min<std::size_t>(written.size() - dashes, 64);
  std::size_t best_distance = std::max<std::size_t>(1, letters / 4) + 1;
  for (const std::string& name : known) {
    const std::size_t distance = edit_distance(written.substr(0, 100), name);
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
