#include "triaccel/formats/npz.h"

#include <zlib.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>
#include <utility>

#include "triaccel/base/error.h"
#include "triaccel/formats/file_bytes.h"

namespace triaccel {
namespace {

using ByteView = std::span<const std::byte>;

// ---------------------------------------------------------------- .npy

/// What an array's header says.
struct NpyHeader {
  char kind = 0;  // b, u, i or f
  std::int64_t item = 0;
  bool big_endian = false;
  bool fortran = false;
  std::vector<std::int64_t> shape = {};
};

/// Reads the Python dictionary of an .npy header; nothing but what numpy writes is accepted.
class NpyHeaderParser {
 public:
  NpyHeaderParser(std::string_view written, std::string_view place)
      : left_(written), size_(written.size()), place_(place) {}

  NpyHeader parse() {
    expect('{');
    bool seen[3] = {};
    while (!accept('}')) {
      const std::string_view key = quoted();
      expect(':');
      const std::size_t which = key == "descr" ? 0 : key == "fortran_order" ? 1 : 2;
      if (which == 2 && key != "shape") fail(text("unknown key '", key.substr(0, 40), "'"));
      if (std::exchange(seen[which], true)) fail(text("'", key, "' appears twice"));
      if (which == 0) {
        read_type();
      } else if (which == 1) {
        read_order();
      } else {
        read_shape();
      }
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    if (!seen[0] || !seen[1] || !seen[2]) fail("descr, fortran_order or shape is missing");
    skip_blanks();
    if (!left_.empty()) fail("text after the dictionary");
    return std::move(header_);
  }

 private:
  [[noreturn]] void fail(std::string_view why) const {
    throw DataError(text(place_, ": header byte ", size_ - left_.size(), ": ", why));
  }

  void skip_blanks() {
    while (!left_.empty() && (left_.front() == ' ' || left_.front() == '\n'))
      left_.remove_prefix(1);
  }

  bool accept(char letter) {
    skip_blanks();
    if (left_.empty() || left_.front() != letter) return false;
    left_.remove_prefix(1);
    return true;
  }

  void expect(char letter) {
    if (!accept(letter)) fail(text("expected '", letter, "'"));
  }

  std::string_view quoted() {
    skip_blanks();
    const char quote = left_.empty() ? '\0' : left_.front();
    if (quote != '\'' && quote != '"') fail("expected a name in quotes");
    const std::size_t end = left_.find(quote, 1);
    if (end == std::string_view::npos) fail("a quote is not closed");
    const std::string_view inside = left_.substr(1, end - 1);
    left_.remove_prefix(end + 1);
    return inside;
  }

  void read_type() {
    skip_blanks();
    if (left_.starts_with('[')) fail("structured arrays are not read; store plain numbers");
    const std::string_view type = quoted();
    if (type.find('O') != std::string_view::npos)
      fail("Python objects are not read; store plain numbers");
    const auto refuse = [&] {
      fail(text("elements of type '", type.substr(0, 20),
                "' are not read; store integers or floats"));
    };
    if (type.size() != 3) refuse();
    header_.big_endian = type[0] == '>';
    header_.kind = type[1];
    header_.item = type[2] - '0';
    const bool known =
        type[1] == 'b'   ? header_.item == 1
        : type[1] == 'f' ? header_.item == 2 || header_.item == 4 || header_.item == 8
        : type[1] == 'i' || type[1] == 'u'
            ? header_.item == 1 || header_.item == 2 || header_.item == 4 || header_.item == 8
            : false;
    const bool ordered = type[0] == '<' || type[0] == '>' || (type[0] == '|' && header_.item == 1);
    if (!known || !ordered) refuse();
  }

  void read_order() {
    skip_blanks();
    header_.fortran = left_.starts_with("True");
    if (!header_.fortran && !left_.starts_with("False")) fail("expected True or False");
    left_.remove_prefix(header_.fortran ? 4 : 5);
  }

  void read_shape() {
    constexpr std::size_t most = 32;  // as numpy
    expect('(');
    while (!accept(')')) {
      skip_blanks();
      std::int64_t size = 0;
      const auto [stop, error] = std::from_chars(left_.data(), left_.data() + left_.size(), size);
      if (error != std::errc{} || size < 0) fail("expected a size");
      left_.remove_prefix(static_cast<std::size_t>(stop - left_.data()));
      if (header_.shape.size() == most) fail(text("more than ", most, " dimensions"));
      header_.shape.push_back(size);
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
  }

  std::string_view left_;
  std::size_t size_;
  std::string_view place_;
  NpyHeader header_;
};

/// The type an array is kept in; unsigned ones in the next wider signed one.
ElementType kept_type(const NpyHeader& header) {
  if (header.kind == 'b') return ElementType::Bool;
  if (header.kind == 'f')
    return header.item == 2   ? ElementType::F16
           : header.item == 4 ? ElementType::F32
                              : ElementType::F64;
  if (header.kind == 'u')
    return header.item == 1   ? ElementType::U8
           : header.item == 2 ? ElementType::I32
                              : ElementType::I64;
  return header.item == 1   ? ElementType::I8
         : header.item == 2 ? ElementType::I16
         : header.item == 4 ? ElementType::I32
                            : ElementType::I64;
}

/// Calls `visit(position in the file)` for every element in row-major order.
template <typename Visit>
void in_row_major_order(const NpyHeader& header, std::int64_t count, Visit visit) {
  if (!header.fortran || header.shape.size() < 2) {
    for (std::int64_t i = 0; i < count; ++i) visit(i);
    return;
  }
  const std::size_t rank = header.shape.size();
  std::vector<std::int64_t> index(rank), stride(rank, 1);
  for (std::size_t d = 1; d < rank; ++d) stride[d] = stride[d - 1] * header.shape[d - 1];
  std::int64_t at = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    visit(at);
    for (std::size_t d = rank; d-- > 0;) {
      at += stride[d];
      if (++index[d] < header.shape[d]) break;
      at -= stride[d] * header.shape[d];
      index[d] = 0;
    }
  }
}

// ---------------------------------------------------------------- zip

struct Member {
  std::string name = {};
  unsigned method = 0;
  std::uint32_t checksum = 0;
  std::uint64_t packed = 0, size = 0, header = 0;  // bytes, bytes, where its local header begins
};

constexpr std::uint64_t kMaxMembers = 10'000;
constexpr std::uint64_t kMaxMemberBytes = std::uint64_t{1} << 36;

class ZipReader {
 public:
  ZipReader(ByteView file, std::string_view file_name) : file_(file), file_name_(file_name) {}

  std::vector<Member> members() {
    const std::size_t end = find_end();
    std::uint64_t count = number(end + 10, 2), bytes = number(end + 12, 4);
    std::uint64_t at = number(end + 16, 4);
    if (number(end + 4, 2) != 0 && number(end + 4, 2) != 0xffff)
      fail(end, "part of a split archive");
    if (count == 0xffff || bytes == 0xffffffff || at == 0xffffffff) {
      if (end < 20 || number(end - 20, 4) != 0x07064b50) fail(end, "no zip64 end of directory");
      const std::uint64_t wide = number(end - 12, 8);
      if (number(wide, 4) != 0x06064b50) fail(wide, "no zip64 directory record");
      count = number(wide + 32, 8), bytes = number(wide + 40, 8), at = number(wide + 48, 8);
    }
    if (at > end || bytes > end - at) fail(end, "the directory lies outside the file");
    if (count > kMaxMembers) fail(end, text(count, " members, more than ", kMaxMembers));
    directory_ = at;
    std::vector<Member> all;
    for (std::uint64_t i = 0; i < count; ++i) all.push_back(read_entry(at));
    return all;
  }

  /// The member's data as stored, behind its local header.
  ByteView packed_bytes(const Member& member) const {
    const std::uint64_t at = member.header;
    if (number(at, 4) != 0x04034b50) fail(at, text("no local header of '", member.name, "'"));
    const std::uint64_t name_bytes = number(at + 26, 2), extra_bytes = number(at + 28, 2);
    if (bytes_at(at + 30, name_bytes) != member.name)
      fail(at, text("the local header of '", member.name, "' has another name"));
    const std::uint64_t begin = at + 30 + name_bytes + extra_bytes;
    if (begin > directory_ || member.packed > directory_ - begin)
      fail(at, text("the data of '", member.name, "' runs into the directory"));
    return file_.subspan(begin, member.packed);
  }

  [[noreturn]] void fail(std::uint64_t at, std::string_view why) const {
    throw DataError(text(file_name_, ": byte ", at, ": ", why));
  }

 private:
  std::uint64_t number(std::uint64_t at, std::size_t bytes) const {
    if (at > file_.size() || bytes > file_.size() - at) fail(file_.size(), "the file ends early");
    std::uint64_t value = 0;
    for (std::size_t i = bytes; i-- > 0;)
      value = value << 8 | std::to_integer<std::uint64_t>(file_[at + i]);
    return value;
  }

  std::string_view bytes_at(std::uint64_t at, std::uint64_t count) const {
    if (at > file_.size() || count > file_.size() - at) fail(file_.size(), "the file ends early");
    return {reinterpret_cast<const char*>(file_.data()) + at, count};
  }

  std::size_t find_end() const {
    constexpr std::size_t record = 22, longest_comment = 0xffff;
    if (file_.size() < record || number(0, 2) != 0x4b50)
      fail(0, "not an .npz file (a zip archive)");
    const std::size_t last = file_.size() - record;
    for (std::size_t at = last + 1; at-- > 0 && last - at <= longest_comment;)
      if (number(at, 4) == 0x06054b50 && number(at + 20, 2) == last - at) return at;
    fail(file_.size(), "no end of the zip directory; is the file complete?");
  }

  Member read_entry(std::uint64_t& at) const {
    if (number(at, 4) != 0x02014b50) fail(at, "no directory entry");
    Member member{.method = static_cast<unsigned>(number(at + 10, 2)),
                  .checksum = static_cast<std::uint32_t>(number(at + 16, 4)),
                  .packed = number(at + 20, 4),
                  .size = number(at + 24, 4),
                  .header = number(at + 42, 4)};
    const std::uint64_t name_bytes = number(at + 28, 2), extra_bytes = number(at + 30, 2);
    member.name = bytes_at(at + 46, name_bytes);
    read_wide_sizes(member, at + 46 + name_bytes, extra_bytes);
    if ((number(at + 8, 2) & 1) != 0) fail(at, text("'", member.name, "' is encrypted"));
    if (member.header >= directory_ || member.packed > directory_ - member.header)
      fail(at, text("'", member.name, "' lies outside the file"));
    at += 46 + name_bytes + extra_bytes + number(at + 32, 2);
    return member;
  }

  void read_wide_sizes(Member& member, std::uint64_t at, std::uint64_t bytes) const {
    const std::uint64_t end = at + bytes;
    while (end - at >= 4) {
      const std::uint64_t id = number(at, 2), length = number(at + 2, 2);
      at += 4;
      if (length > end - at) fail(at, "a field of the directory is too long");
      if (id == 1) {
        std::uint64_t field = at;
        for (std::uint64_t* value : {&member.size, &member.packed, &member.header})
          if (*value == 0xffffffff && field + 8 <= at + length) {
            *value = number(field, 8);
            field += 8;
          }
      }
      at += length;
    }
  }

  ByteView file_;
  std::string_view file_name_;
  std::uint64_t directory_ = 0;
};

/// Members that share bytes are how a small file expands without bound.
void check_overlap(const ZipReader& zip, const std::vector<Member>& members) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges;
  for (const Member& member : members)
    ranges.emplace_back(member.header, member.header + 30 + member.packed);
  std::ranges::sort(ranges);
  for (std::size_t i = 1; i < ranges.size(); ++i)
    if (ranges[i].first < ranges[i - 1].second) zip.fail(ranges[i].first, "members overlap");
}

std::vector<std::byte> unpacked(const ZipReader& zip, const Member& member,
                                std::string_view place) {
  if (member.method != 0 && member.method != 8)
    throw DataError(text(place, ": compressed by method ", member.method,
                         ", only stored and deflated members are read"));
  if (member.size > kMaxMemberBytes)
    throw DataError(text(place, ": ", member.size, " bytes, more than ", kMaxMemberBytes));
  const ByteView packed = zip.packed_bytes(member);
  if (member.method == 0 && packed.size() != member.size)
    throw DataError(text(place, ": stored ", packed.size(), " bytes, not ", member.size));
  std::vector<std::byte> bytes = member.method == 0
                                     ? std::vector<std::byte>(packed.begin(), packed.end())
                                     : inflate_raw(packed, member.size, place);
  const uLong sum =
      crc32_z(crc32_z(0, nullptr, 0), reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
  if (sum != member.checksum)
    throw DataError(text(place, ": its checksum is wrong; the file is damaged"));
  return bytes;
}

}  // namespace

StateView parse_npy(ByteView file, std::string_view place) {
  constexpr std::string_view kNpyStart("\x93NUMPY", 6);
  const std::string_view bytes(reinterpret_cast<const char*>(file.data()), file.size());
  if (!bytes.starts_with(kNpyStart) || bytes.size() < 10)
    throw DataError(text(place, ": not an .npy array"));
  const int version = bytes[6];
  if (version < 1 || version > 3)
    throw DataError(text(place, ": version ", version, " of the .npy format is not known"));
  const std::size_t field = version == 1 ? 2 : 4, start = 8 + field;
  std::size_t length = 0;
  for (std::size_t i = 0; i < field && 8 + i < bytes.size(); ++i)
    length |= static_cast<std::size_t>(static_cast<unsigned char>(bytes[8 + i])) << (8 * i);
  if (start > bytes.size() || length > bytes.size() - start)
    throw DataError(text(place, ": its header ends early"));
  const NpyHeader header = NpyHeaderParser(bytes.substr(start, length), place).parse();

  std::int64_t count = 1;
  for (const std::int64_t size : header.shape)
    if (__builtin_mul_overflow(count, size, &count))
      throw DataError(text(place, ": its shape is too large"));
  const ByteView data = file.subspan(start + length);
  std::int64_t expected = 0;
  if (__builtin_mul_overflow(count, header.item, &expected) ||
      expected != static_cast<std::int64_t>(data.size()))
    throw DataError(text(place, ": ", data.size(), " bytes of data, but type and shape need ",
                         count, " elements of ", header.item, " bytes"));

  StateView view{.type = kept_type(header), .shape = header.shape};
  const auto kept_item = static_cast<std::size_t>(size_of(view.type));
  const auto item = static_cast<std::size_t>(header.item);
  auto kept = std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(count) * kept_item);
  std::byte* out = kept->data();
  const bool as_kept =
      item == kept_item && !header.big_endian && (!header.fortran || header.shape.size() < 2);
  if (as_kept && !data.empty()) std::memcpy(out, data.data(), data.size());
  if (!as_kept)
    in_row_major_order(header, count, [&](std::int64_t at) {
      const std::byte* const from = data.data() + static_cast<std::size_t>(at) * item;
      for (std::size_t b = 0; b < item; ++b) out[b] = from[header.big_endian ? item - 1 - b : b];
      out += kept_item;  // wider: the upper bytes are zero
    });
  if (header.kind == 'u' && item == 8)
    for (std::size_t i = 7; i < kept->size(); i += 8)
      if (((*kept)[i] & std::byte{0x80}) != std::byte{0})
        throw DataError(text(place, ": element ", i / 8, " is 2^63 or more"));
  view.bytes = *kept;
  view.owner = std::move(kept);
  return view;
}

std::vector<StateView> parse_npz(ByteView file, std::string_view file_name,
                                 std::span<const std::string> wanted) {
  ZipReader zip(file, file_name);
  const std::vector<Member> members = zip.members();
  check_overlap(zip, members);
  std::vector<StateView> arrays;
  for (const Member& member : members) {
    const std::string name =
        member.name.ends_with(".npy") ? member.name.substr(0, member.name.size() - 4) : member.name;
    if (!wanted.empty() && std::ranges::find(wanted, name) == wanted.end()) continue;
    const std::string place = text(file_name, ": member '", member.name.substr(0, 200), "'");
    if (std::ranges::find(arrays, name, &StateView::name) != arrays.end())
      throw DataError(text(place, " appears twice"));
    arrays.push_back(parse_npy(unpacked(zip, member, place), place));
    arrays.back().name = name;
  }
  return arrays;
}

}  // namespace triaccel
