#include "triaccel/telemetry/records/json_lines.h"

#include <cerrno>
#include <cstring>
#include <fstream>

#include <nlohmann/json.hpp>

#include "triaccel/base/byte_size.h"
#include "triaccel/base/error.h"

namespace triaccel {
namespace {

constexpr std::size_t kMaxLineBytes = std::size_t{16} << 20;

}  // namespace

bool for_each_json_line(
    const std::filesystem::path& path, std::int64_t max_bytes,
    const std::function<void(const std::string& line, const std::string& where)>& visit) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw StorageError(text("cannot open ", path.string(), ": ", std::strerror(errno)));
  std::string line;
  std::string block(65536, '\0');
  std::int64_t number = 1;
  std::int64_t bytes = 0;
  const auto where = [&] { return text(path.string(), ":", number); };
  while (file.read(block.data(), static_cast<std::streamsize>(block.size())) || file.gcount() > 0) {
    std::string_view rest(block.data(), static_cast<std::size_t>(file.gcount()));
    bytes += file.gcount();
    if (bytes > max_bytes)
      throw StorageError(text(path.string(), " is longer than ", byte_text(max_bytes),
                              ", more than this program reads; is it the right file?"));
    for (std::size_t end = rest.find('\n'); end != rest.npos; end = rest.find('\n')) {
      line.append(rest.substr(0, end));
      visit(line, where());
      line.clear();
      ++number;
      rest.remove_prefix(end + 1);
    }
    line.append(rest);
    if (line.size() > kMaxLineBytes)
      throw StorageError(text(where(), ": longer than ",
                              byte_text(static_cast<std::int64_t>(kMaxLineBytes)),
                              "; this is no file of this program"));
  }
  if (file.bad()) throw StorageError(text("cannot read ", path.string(), ": ", std::strerror(EIO)));
  if (line.empty()) return false;
  if (!nlohmann::json::accept(line)) return true;
  visit(line, where());
  return false;
}

}  // namespace triaccel
