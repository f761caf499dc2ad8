#include "triaccel/formats/toml_document.h"

#include <set>
#include <utility>

#include "triaccel/base/utf8.h"
#include "triaccel/formats/toml_cursor.h"

namespace triaccel {
namespace {

constexpr std::size_t kMaxTomlBytes = std::size_t{1} << 20;

// TOML allows only UTF-8 and no control characters, not even in comments.
void check_characters(std::string_view source, std::string_view file_name) {
  TomlCursor cursor(source, file_name);
  for (std::size_t i = 0; i < source.size();) {
    const char c = source[i];
    const std::size_t length = utf8_length(source.substr(i));
    if (length == 0) cursor.fail("not UTF-8");
    const bool line_end = c == '\n' || source.substr(i).starts_with("\r\n");
    if ((static_cast<unsigned char>(c) < 0x20 && c != '\t' && !line_end) || c == 0x7f)
      cursor.fail("unexpected control character");
    const std::size_t step = c == '\r' ? 2 : length;
    for (std::size_t taken = 0; taken < (line_end ? 1 : step); ++taken) cursor.take();
    i += step;
  }
}

/// Builds the entries of one document.
class TomlReader {
 public:
  TomlReader(std::string_view source, std::string_view file_name) : cursor_(source, file_name) {}

  std::vector<TomlEntry> read() {
    for (;;) {
      cursor_.skip_blanks();
      const char next = cursor_.peek();
      if (next == '[')
        take_header();
      else if (next != '\n' && next != '#' && next != TomlCursor::kEnd)
        take_entry();
      if (!finish_line()) return std::move(entries_);
    }
  }

 private:
  // False at the end of the text.
  bool finish_line() {
    cursor_.skip_blanks();
    if (cursor_.peek() == '#')
      while (cursor_.peek() != '\n' && cursor_.peek() != TomlCursor::kEnd) cursor_.take();
    if (cursor_.peek() == TomlCursor::kEnd) return false;
    if (cursor_.peek() != '\n') cursor_.fail("expected the end of the line");
    cursor_.take();
    return true;
  }

  std::string take_name() {
    if (cursor_.peek() == '"' || cursor_.peek() == '\'') return take_toml_string(cursor_);
    std::string name;
    while (is_bare_key_character(cursor_.peek())) name.push_back(cursor_.take());
    if (name.empty()) cursor_.fail("expected a key of letters, digits, - and _");
    return name;
  }

  void take_header() {
    const TomlPlace start = cursor_.place();
    cursor_.take();
    if (cursor_.peek() == '[') cursor_.fail_at(start, "arrays of tables are not supported");
    cursor_.skip_blanks();
    table_ = take_name();
    cursor_.skip_blanks();
    if (cursor_.peek() == '.')
      cursor_.fail("[", table_, ". ...] is a nested table; only one level is supported");
    if (cursor_.peek() != ']') cursor_.fail("expected ] after the table's name");
    cursor_.take();
    if (table_.empty()) cursor_.fail_at(start, "a table needs a name");
    open_table(table_, start);
  }

  void open_table(const std::string& table, TomlPlace place) {
    if (keys_.contains({"", table})) cursor_.fail_at(place, "'", table, "' is already a key");
    if (!tables_.insert(table).second) cursor_.fail_at(place, "[", table, "] appears twice");
  }

  void take_entry() {
    const TomlPlace start = cursor_.place();
    TomlEntry entry{
        .table = table_, .key = take_name(), .line = start.line, .column = start.column};
    cursor_.skip_blanks();
    if (cursor_.peek() == '.') {
      if (!table_.empty() || entry.key.empty()) cursor_.fail("nested tables are not supported");
      cursor_.take();
      cursor_.skip_blanks();
      entry.table = std::exchange(entry.key, take_name());
      cursor_.skip_blanks();
      if (dotted_.insert(entry.table).second) open_table(entry.table, start);
    }
    if (cursor_.peek() == '.') cursor_.fail("nested tables are not supported");
    const std::string path = entry.table.empty() ? entry.key : entry.table + "." + entry.key;
    if (cursor_.peek() != '=') cursor_.fail("expected = after '", path, "'");
    cursor_.take();
    cursor_.skip_blanks();
    if ((entry.table.empty() && tables_.contains(entry.key)) ||
        !keys_.insert({entry.table, entry.key}).second)
      cursor_.fail_at(start, "'", path, "' appears twice");
    entry.value = take_toml_scalar(cursor_, path);
    entries_.push_back(std::move(entry));
  }

  TomlCursor cursor_;
  std::string table_;
  std::vector<TomlEntry> entries_;
  std::set<std::string> tables_;
  std::set<std::string> dotted_;  // tables created by "table.key = value" lines
  std::set<std::pair<std::string, std::string>> keys_;
};

}  // namespace

std::vector<TomlEntry> parse_toml(std::string_view source, std::string_view file_name) {
  if (source.size() > kMaxTomlBytes)
    TomlCursor(source, file_name)
        .fail(source.size(), " bytes, more than the limit for a configuration of ", kMaxTomlBytes);
  if (source.starts_with("\xef\xbb\xbf")) source.remove_prefix(3);  // a byte order mark
  check_characters(source, file_name);
  return TomlReader(source, file_name).read();
}

}  // namespace triaccel
