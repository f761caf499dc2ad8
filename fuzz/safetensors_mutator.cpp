#include "fuzz/fuzz_target.h"

#include <cstring>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace triaccel::fuzz {
namespace {

using nlohmann::json;
using Random = std::minstd_rand;

constexpr std::size_t kPrefix = 8;

struct Parts {
  std::string header;
  std::string data;
};

std::uint64_t below(Random& random, std::uint64_t bound) { return random() % bound; }

// Header and data of a file with a valid prefix; otherwise an empty header around its bytes.
Parts split(std::string_view file) {
  std::uint64_t length = 0;
  if (file.size() < kPrefix) return {"{}", std::string(file)};
  std::memcpy(&length, file.data(), kPrefix);
  file.remove_prefix(kPrefix);
  if (length > file.size()) return {"{}", std::string(file)};
  return {std::string(file.substr(0, length)), std::string(file.substr(length))};
}

std::string joined(const Parts& parts) {
  const std::uint64_t length = parts.header.size();
  std::string file(kPrefix, '\0');
  std::memcpy(file.data(), &length, kPrefix);
  return file + parts.header + parts.data;
}

void mutate_bytes(std::string& bytes) {
  const std::size_t size = bytes.size();
  bytes.resize(size + 64);
  bytes.resize(LLVMFuzzerMutate(reinterpret_cast<std::uint8_t*>(bytes.data()), size, bytes.size()));
}

json hostile_number(Random& random) {
  static const std::vector<json> numbers = {0,
                                            1,
                                            2,
                                            -1,
                                            7,
                                            255,
                                            65536,
                                            2147483647,
                                            4294967296,
                                            9223372036854775807,
                                            18446744073709551615u,
                                            1.5,
                                            1e300,
                                            nullptr,
                                            "1",
                                            json::array()};
  return numbers[below(random, numbers.size())];
}

std::string element_type(Random& random) {
  static const std::vector<std::string> types = {"F32", "F16", "BF16", "F64", "U8",  "I8",
                                                 "I64", "I32", "BOOL", "f32", "F128"};
  return types[below(random, types.size())];
}

void change_number(json& list, Random& random) {
  if (!list.is_array()) return;
  if (list.empty() || below(random, 3) == 0)
    list.push_back(hostile_number(random));
  else
    list[below(random, list.size())] = hostile_number(random);
}

// A tensor of bytes appended to the data: valid if the rest is.
void add_tensor(Parts& parts, json& header, Random& random) {
  const std::size_t begin = parts.data.size(), count = below(random, 9);
  parts.data.append(count, 'x');
  header["t" + std::to_string(below(random, 20))] = {
      {"dtype", "U8"}, {"shape", {count}}, {"data_offsets", {begin, begin + count}}};
}

void change_tensor(Parts& parts, json& header, Random& random) {
  auto chosen = header.begin();
  std::advance(chosen, below(random, header.size()));
  json& tensor = *chosen;
  switch (below(random, 7)) {
    case 0:
      header["copy"] = json(tensor);
      break;
    case 1:
      header.erase(chosen);
      break;
    case 2:
      tensor["dtype"] = element_type(random);
      break;
    case 3:
      change_number(tensor["shape"], random);
      break;
    case 4:
      change_number(tensor["data_offsets"], random);
      break;
    case 5:
      tensor[below(random, 2) == 0 ? "extra" : "shape"] = hostile_number(random);
      break;
    default:
      add_tensor(parts, header, random);
      break;
  }
}

void mutate_structure(Parts& parts, Random& random) {
  json header = json::parse(parts.header, nullptr, false);
  if (!header.is_object()) header = json::object();
  for (auto& [name, tensor] : header.items())
    if (!tensor.is_object()) tensor = json::object();
  if (header.empty() || below(random, 8) == 0)
    add_tensor(parts, header, random);
  else if (below(random, 8) == 0)
    header["__metadata__"]["key"] =
        below(random, 4) == 0 ? hostile_number(random) : json(std::string(below(random, 9), 'v'));
  else
    change_tensor(parts, header, random);
  parts.header = header.dump(-1, ' ', false, json::error_handler_t::replace);
  if (below(random, 4) == 0) parts.header.append(below(random, 9), ' ');
}

}  // namespace

std::size_t mutate_safetensors(std::uint8_t* data, std::size_t size, std::size_t max_size,
                               unsigned int seed) {
  Random random(seed);
  if (below(random, 10) == 0) return LLVMFuzzerMutate(data, size, max_size);
  Parts parts = split(text_of(data, size));
  const std::uint64_t choice = below(random, 10);
  if (choice < 7)
    mutate_structure(parts, random);
  else if (choice < 9)
    mutate_bytes(parts.header);
  else
    mutate_bytes(parts.data);
  const std::string file = joined(parts);
  if (file.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::memcpy(data, file.data(), file.size());
  return file.size();
}

}  // namespace triaccel::fuzz
