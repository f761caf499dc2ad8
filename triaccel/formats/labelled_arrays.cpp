#include "triaccel/formats/labelled_arrays.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "triaccel/formats/file_bytes.h"
#include "triaccel/formats/npz.h"
#include "triaccel/formats/safetensors.h"

namespace triaccel {
namespace {

constexpr std::uint64_t kMaxArrayFileBytes = std::uint64_t{1} << 36;
constexpr std::int64_t kMaxArrayClasses = 65'536;

template <typename T>
T element(const StateView& array, std::int64_t i) {
  T value;
  std::memcpy(&value, array.bytes.data() + static_cast<std::size_t>(i) * sizeof(T), sizeof(T));
  return value;
}

double half_value(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const double size = exponent == 31  ? (fraction != 0 ? std::nan("") : HUGE_VAL)
                      : exponent == 0 ? std::ldexp(fraction, -24)
                                      : std::ldexp(fraction + 1024, exponent - 25);
  return (bits & 0x8000) != 0 ? -size : size;
}

double float_at(const StateView& array, std::int64_t i) {
  switch (array.type) {
    case ElementType::F16:
      return half_value(element<std::uint16_t>(array, i));
    case ElementType::BF16:
      return std::bit_cast<float>(std::uint32_t{element<std::uint16_t>(array, i)} << 16);
    case ElementType::F32:
      return element<float>(array, i);
    default:
      return element<double>(array, i);
  }
}

std::int64_t integer_at(const StateView& array, std::int64_t i) {
  switch (array.type) {
    case ElementType::I8:
      return element<std::int8_t>(array, i);
    case ElementType::I16:
      return element<std::int16_t>(array, i);
    case ElementType::I32:
      return element<std::int32_t>(array, i);
    case ElementType::I64:
      return element<std::int64_t>(array, i);
    default:
      return element<std::uint8_t>(array, i);
  }
}

bool is_float(ElementType type) {
  return type == ElementType::F16 || type == ElementType::BF16 || type == ElementType::F32 ||
         type == ElementType::F64;
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string all = "[";
  for (const std::int64_t size : shape) all += text(all.size() > 1 ? ", " : "", size);
  return all + "]";
}

/// How an array of images lies in memory.
struct ArrayLayout {
  std::int64_t count = 0, channels = 1, height = 0, width = 0;
  bool channels_last = false;
};

class ArrayReader {
 public:
  ArrayReader(std::span<const StateView> arrays, std::string_view file_name, DefectLog& log)
      : arrays_(arrays), file_name_(file_name), log_(log) {}

  LabelledArrays read() {
    LabelledArrays all;
    const StateView& x = needed("x");
    const StateView& y = needed("y");
    const StateView* const x_test = find("x_test");
    const StateView* const y_test = find("y_test");
    if ((x_test == nullptr) != (y_test == nullptr))
      fail(x_test == nullptr ? "x_test" : "y_test", "is missing; give both or neither");
    const ArrayLayout layout = layout_of(x);
    if (is_float(x.type)) choose_scale(x, all.notices);
    all.classes = count_classes(y);
    all.train = split(x, y, layout, all.classes);
    if (x_test != nullptr) {
      const ArrayLayout test = layout_of(*x_test);
      if (test.channels != layout.channels || test.height != layout.height ||
          test.width != layout.width || is_float(x_test->type) != is_float(x.type))
        fail("x_test", "has another type or size of images than x");
      all.test = split(*x_test, *y_test, test, all.classes);
    }
    std::vector<bool> seen(static_cast<std::size_t>(all.classes));
    for (const std::int32_t label : all.train.labels) seen[static_cast<std::size_t>(label)] = true;
    if (const auto absent = std::ranges::find(seen, false); absent != seen.end())
      fail("y", text("has no sample of class ", absent - seen.begin(), " of ", all.classes,
                     "; number the classes from 0, as numpy.unique(y, return_inverse=True)[1]"));
    return all;
  }

 private:
  [[noreturn]] void fail(std::string_view array, std::string_view why) const {
    throw DataError(text(file_name_, ": array '", array, "' ", why));
  }

  const StateView* find(std::string_view name) const {
    const auto found = std::ranges::find(arrays_, name, &StateView::name);
    return found == arrays_.end() ? nullptr : &*found;
  }

  const StateView& needed(std::string_view name) const {
    const StateView* const found = find(name);
    if (found == nullptr)
      fail(name,
           "is missing; images are called x, their labels y, those of the test set x_test "
           "and y_test");
    return *found;
  }

  ArrayLayout layout_of(const StateView& x) const {
    if (x.type != ElementType::U8 && !is_float(x.type))
      fail(x.name, text("has elements of type ", name_of(x.type), "; images are uint8 or floats"));
    const auto& s = x.shape;
    const auto refuse = [&] {
      fail(x.name, text("has shape ", shape_text(s),
                        "; images are [N, C, H, W], [N, H, W, C] or [N, H, W]"));
    };
    if (s.size() != 3 && s.size() != 4) refuse();
    if (std::ranges::find(s, 0) != s.end()) fail(x.name, text("is empty: ", shape_text(s)));
    if (s.size() == 3) return {.count = s[0], .height = s[1], .width = s[2]};
    const auto usual = [](std::int64_t channels) { return channels == 1 || channels == 3; };
    // The usual numbers of channels decide, then the shape of square images.
    bool last = usual(s[3]);
    if (usual(s[1]) == usual(s[3])) {
      if ((s[1] == s[2]) == (s[2] == s[3])) refuse();
      last = s[1] == s[2];
    }
    return last ? ArrayLayout{s[0], s[3], s[1], s[2], true}
                : ArrayLayout{s[0], s[1], s[2], s[3], false};
  }

  void choose_scale(const StateView& x, std::vector<std::string>& notices) {
    constexpr double just_above_one = 1.001;  // by rounding
    constexpr double least_grey_levels = 16;  // below it, fractions are no grey levels
    double low = std::numeric_limits<double>::infinity(), high = -low;
    bool whole = true;
    const auto count = static_cast<std::int64_t>(x.bytes.size()) / size_of(x.type);
    for (std::int64_t i = 0; i < count; ++i) {
      const double value = float_at(x, i);
      if (!std::isfinite(value)) continue;
      low = std::min(low, value);
      high = std::max(high, value);
      whole = whole && value == std::floor(value);
    }
    if (!(low < high)) fail(x.name, "holds only one value, or none that is finite");
    offset_ = 0;
    factor_ = 255;
    if (low >= 0 && high <= just_above_one) return;
    factor_ = 1;
    if (low >= 0 && high <= 255 && (whole || high >= least_grey_levels)) return;
    offset_ = low;
    factor_ = 255 / (high - low);
    notices.push_back(text(file_name_, ": floats from ", low, " to ", high,
                           " are kept in 8 bits; clip outliers where that is too coarse"));
  }

  std::int64_t count_classes(const StateView& y) const {
    check_labels(y);
    std::int64_t most = -1;
    for (std::int64_t i = 0; i < y.shape[0]; ++i) {
      const std::int64_t label = integer_at(y, i);
      if (label < 0 || label >= kMaxArrayClasses)
        fail(y.name, text("element ", i, " is ", label, "; labels count from 0 and lie below ",
                          kMaxArrayClasses));
      most = std::max(most, label);
    }
    if (most < 1) fail(y.name, "holds one class only; there is nothing to learn");
    return most + 1;
  }

  void check_labels(const StateView& y) const {
    if (is_float(y.type)) fail(y.name, "holds floats; labels are integers");
    if (y.shape.empty() || y.shape.size() > 2 || (y.shape.size() == 2 && y.shape[1] != 1))
      fail(y.name, text("has shape ", shape_text(y.shape), "; labels are [N]"));
  }

  LabelledImages split(const StateView& x, const StateView& y, const ArrayLayout& layout,
                       std::int64_t classes) {
    check_labels(y);
    if (y.shape[0] != layout.count)
      fail(y.name, text("has ", y.shape[0], " labels for ", layout.count, " images"));
    LabelledImages set{.channels = layout.channels, .height = layout.height, .width = layout.width};
    const std::int64_t image = layout.channels * layout.height * layout.width;
    set.pixels.resize(static_cast<std::size_t>(image * layout.count));
    std::uint8_t* out = set.pixels.data();
    for (std::int64_t i = 0; i < layout.count; ++i) {
      const std::int64_t label = integer_at(y, i);
      if (label < 0 || label >= classes) {
        log_.add(text(file_name_, ": ", y.name), i, Defect::LabelOutOfRange,
                 text(label, ", the largest is ", classes - 1));
        continue;
      }
      if (!copy_image(x, layout, i, out)) {
        log_.add(text(file_name_, ": ", x.name), i, Defect::NotFinite, "infinite or NaN");
        continue;
      }
      out += image;
      set.labels.push_back(static_cast<std::int32_t>(label));
    }
    set.count = std::ssize(set.labels);
    set.pixels.resize(static_cast<std::size_t>(image * set.count));
    log_.close_split(text(file_name_, ": ", x.name), layout.count, set.count, "repair the file");
    return set;
  }

  /// False if a value is not finite.
  bool copy_image(const StateView& x, const ArrayLayout& layout, std::int64_t number,
                  std::uint8_t* out) const {
    const std::int64_t plane = layout.height * layout.width, image = plane * layout.channels;
    const bool floats = is_float(x.type);
    if (!floats && (!layout.channels_last || layout.channels == 1)) {
      std::memcpy(out, x.bytes.data() + number * image, static_cast<std::size_t>(image));
      return true;
    }
    for (std::int64_t c = 0; c < layout.channels; ++c)
      for (std::int64_t p = 0; p < plane; ++p) {
        const std::int64_t at =
            number * image + (layout.channels_last ? p * layout.channels + c : c * plane + p);
        if (!floats) {
          *out++ = element<std::uint8_t>(x, at);
          continue;
        }
        const double value = (float_at(x, at) - offset_) * factor_;
        if (!std::isfinite(value)) return false;
        *out++ = static_cast<std::uint8_t>(std::lround(std::clamp(value, 0.0, 255.0)));
      }
    return true;
  }

  std::span<const StateView> arrays_;
  std::string_view file_name_;
  DefectLog& log_;
  double offset_ = 0, factor_ = 1;  // of floats
};

}  // namespace

bool is_array_file_name(std::string_view name) {
  return name.ends_with(".npz") || name.ends_with(".safetensors");
}

LabelledArrays labelled_arrays(std::span<const StateView> arrays, std::string_view file_name,
                               DefectLog& log) {
  return ArrayReader(arrays, file_name, log).read();
}

LabelledArrays read_labelled_arrays(const std::filesystem::path& file, DefectLog& log) {
  if (file.extension() == ".safetensors")
    return labelled_arrays(read_safetensors(file).tensors, file.string(), log);
  static const std::array<std::string, 4> kWanted = {"x", "y", "x_test", "y_test"};
  const std::vector<std::byte> bytes = read_file(file, kMaxArrayFileBytes);
  return labelled_arrays(parse_npz(bytes, file.string(), kWanted), file.string(), log);
}

}  // namespace triaccel
