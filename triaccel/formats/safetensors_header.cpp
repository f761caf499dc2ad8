#include "triaccel/formats/safetensors_header.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "triaccel/base/error.h"

namespace triaccel {
namespace {

// Together with kMaxSafetensorsHeader these bound the allocations of a malicious header.
constexpr std::size_t kMaxTensors = 100'000;
constexpr std::size_t kMaxNameBytes = 4096;
constexpr std::size_t kMaxMetadata = 50'000;
constexpr std::size_t kMaxStringBytes = std::size_t{4}
                                        << 20;  // the JSON parser copies strings several times
constexpr std::size_t kMaxRank = 64;            // as torch's own limit

constexpr std::string_view kMetadata = "__metadata__";

constexpr std::array kTypes = {
    ElementType::Bool, ElementType::U8,  ElementType::I8,   ElementType::I16, ElementType::I32,
    ElementType::I64,  ElementType::F16, ElementType::BF16, ElementType::F32, ElementType::F64};

constexpr std::array<std::string_view, 11> kTypesWeDoNotRead = {
    "F4",  "F6_E2M3", "F6_E3M2", "F8_E4M3", "F8_E5M2",    "F8_E8M0",
    "U16", "U32",     "U64",     "C64",     "F8_E4M3FNUZ"};

/// SAX handler for { "name": { "dtype", "shape", "data_offsets" }, … }; rejects anything
/// unexpected.
class HeaderBuilder final : public nlohmann::json_sax<nlohmann::ordered_json> {
 public:
  explicit HeaderBuilder(std::string_view file_name) : file_name_(file_name) {}

  SafetensorsHeader take() && { return std::move(header_); }

  bool start_object(std::size_t) override {
    if (place_ == Place::Start) {
      place_ = Place::Header;
    } else if (place_ == Place::Header) {
      place_ = name_ == kMetadata ? Place::Metadata : Place::Tensor;
      fields_seen_ = {};
      if (place_ == Place::Tensor) header_.tensors.push_back({.name = name_});
    } else {
      reject("unexpected object");
    }
    return true;
  }

  bool end_object() override {
    if (place_ == Place::Tensor &&
        !std::all_of(fields_seen_.begin(), fields_seen_.end(), [](bool seen) { return seen; }))
      reject("dtype, shape or data_offsets is missing");
    place_ = place_ == Place::Header ? Place::Start : Place::Header;
    return true;
  }

  bool start_array(std::size_t) override {
    if (place_ != Place::Tensor || field_ == kDtype) reject("unexpected list");
    place_ = field_ == kShape ? Place::Shape : Place::Offsets;
    offsets_read_ = 0;
    return true;
  }

  bool end_array() override {
    if (place_ == Place::Offsets && offsets_read_ != 2) reject("data_offsets must be two numbers");
    place_ = Place::Tensor;
    return true;
  }

  bool key(std::string& key) override {
    if (place_ == Place::Header) {
      if (key.size() > kMaxNameBytes) reject("a name is too long");
      name_ = key;
      if (key == kMetadata && std::exchange(metadata_seen_, true)) reject("the name appears twice");
      if (header_.tensors.size() == kMaxTensors)
        reject(text("more than ", kMaxTensors, " tensors in one file"));
    } else if (place_ == Place::Metadata) {
      if (header_.metadata.contains(key)) reject(text("the key '", key, "' appears twice"));
      metadata_value_ = &header_.metadata[key];
      if (header_.metadata.size() > kMaxMetadata)
        reject(text("more than ", kMaxMetadata, " entries"));
    } else {
      const auto found = std::find(kFields.begin(), kFields.end(), key);
      if (found == kFields.end()) reject(text("unknown field '", key, "'"));
      field_ = static_cast<std::size_t>(found - kFields.begin());
      if (std::exchange(fields_seen_[field_], true))
        reject(text("field '", key, "' appears twice"));
    }
    return true;
  }

  bool string(std::string& value) override {
    if (place_ == Place::Metadata)
      *metadata_value_ = value;
    else if (place_ == Place::Tensor && field_ == kDtype)
      header_.tensors.back().type = type_called(value);
    else
      reject("unexpected string");
    return true;
  }

  bool number_unsigned(number_unsigned_t value) override {
    TensorEntry* tensor = header_.tensors.empty() ? nullptr : &header_.tensors.back();
    if (place_ == Place::Shape) {
      if (value > std::uint64_t{INT64_MAX}) reject("a size in shape is too large");
      if (tensor->shape.size() == kMaxRank) reject(text("more than ", kMaxRank, " dimensions"));
      tensor->shape.push_back(static_cast<std::int64_t>(value));
    } else if (place_ == Place::Offsets && offsets_read_ < 2) {
      (offsets_read_++ == 0 ? tensor->begin : tensor->end) = value;
    } else {
      reject("unexpected number");
    }
    return true;
  }

  bool number_integer(number_integer_t value) override { reject(text("negative number ", value)); }
  bool number_float(number_float_t, const std::string& written) override {
    reject(text("not an integer below 2^64: ", written.substr(0, 40)));
  }
  bool null() override { reject("unexpected null"); }
  bool boolean(bool) override { reject("unexpected boolean"); }
  bool binary(nlohmann::ordered_json::binary_t&) override { reject("unexpected binary data"); }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::ordered_json::exception& error) override {
    throw DataError(text(file_name_, ": header byte ", position, ": ",
                         std::string_view(error.what()).substr(0, 300)));
  }

 private:
  enum class Place { Start, Header, Metadata, Tensor, Shape, Offsets };
  static constexpr std::size_t kDtype = 0;
  static constexpr std::size_t kShape = 1;
  static constexpr std::array<std::string_view, 3> kFields = {"dtype", "shape", "data_offsets"};

  [[noreturn]] void reject(std::string_view why) const {
    throw DataError(text(file_name_, ": header entry '", name_.substr(0, 200), "': ", why));
  }

  ElementType type_called(std::string_view name) const {
    for (const ElementType type : kTypes)
      if (name_of(type) == name) return type;
    for (const std::string_view known : kTypesWeDoNotRead)
      if (known == name)
        reject(text("elements of type ", name, " are not supported; convert the tensor first"));
    reject(text("unknown dtype '", name.substr(0, 40), "'"));
  }

  std::string_view file_name_;
  SafetensorsHeader header_;
  Place place_ = Place::Start;
  std::string name_;
  bool metadata_seen_ = false;
  std::string* metadata_value_ = nullptr;
  std::size_t field_ = kDtype;
  std::array<bool, 3> fields_seen_ = {};
  int offsets_read_ = 0;
};

std::size_t longest_string(std::string_view json) {
  std::size_t longest = 0;
  for (std::size_t i = 0; i < json.size(); ++i) {
    if (json[i] != '"') continue;
    const std::size_t begin = ++i;
    while (i < json.size() && json[i] != '"') i += json[i] == '\\' ? 2 : 1;
    longest = std::max(longest, std::min(i, json.size()) - begin);
  }
  return longest;
}

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view json, std::string_view file_name) {
  if (json.empty() || json.front() != '{')
    throw DataError(
        text(file_name, ": not a safetensors file: the header does not start with '{'"));
  if (const std::size_t zero = json.find('\0'); zero != std::string_view::npos)
    throw DataError(text(file_name, ": header byte ", zero, ": a zero byte is not JSON"));
  if (const std::size_t longest = longest_string(json); longest > kMaxStringBytes)
    throw DataError(text(file_name, ": a string of ", longest, " bytes in the header is too long"));
  HeaderBuilder builder(file_name);
  nlohmann::ordered_json::sax_parse(json, &builder);
  SafetensorsHeader header = std::move(builder).take();
  std::vector<TensorEntry>& tensors = header.tensors;
  std::sort(tensors.begin(), tensors.end(),
            [](const TensorEntry& a, const TensorEntry& b) { return a.name < b.name; });
  const auto twice = std::adjacent_find(
      tensors.begin(), tensors.end(),
      [](const TensorEntry& a, const TensorEntry& b) { return a.name == b.name; });
  if (twice != tensors.end())
    throw DataError(text(file_name, ": header entry '", twice->name, "' appears twice"));
  std::stable_sort(tensors.begin(), tensors.end(), [](const TensorEntry& a, const TensorEntry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  return header;
}

}  // namespace triaccel
