#include "triaccel/int8_run/weights_file.h"

#include <charconv>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <string>

#include "triaccel/base/error.h"
#include "triaccel/formats/safetensors.h"

namespace triaccel {
namespace {

constexpr const char* kExponents = "exponents";
constexpr const char* kStep = "step";

std::string tensor_name(const std::string& layer) { return layer + ".weight"; }
std::string exponent_name(const std::string& layer) { return layer + ".exponent"; }

std::vector<std::int8_t> bytes_of(const StateView& view) {
  std::vector<std::int8_t> data(view.bytes.size());
  if (!data.empty()) std::memcpy(data.data(), view.bytes.data(), data.size());
  return data;
}

constexpr std::int32_t kNoExponent = std::numeric_limits<std::int32_t>::max();

std::int32_t exponent_from(const std::string& written) {
  std::int32_t value = 0;
  const auto [end, error] = std::from_chars(written.data(), written.data() + written.size(), value);
  return error == std::errc() && end == written.data() + written.size() ? value : kNoExponent;
}

}  // namespace

std::vector<StateView> int8_weight_views(std::span<const int8::NamedWeights> weights) {
  std::vector<StateView> views;
  for (const int8::NamedWeights& layer : weights) {
    auto copy = std::make_shared<std::vector<std::int8_t>>(layer.data);
    const std::span<const std::byte> bytes = std::as_bytes(std::span(*copy));
    views.push_back({tensor_name(layer.name), ElementType::I8, layer.shape, bytes, copy});
  }
  return views;
}

void save_int8_weights(const std::filesystem::path& file, const int8::State& state) {
  const std::vector<int8::NamedWeights> weights = int8::export_weights(state);
  std::map<std::string, std::string> metadata = {{"format", "triaccel-int8"}};
  for (const int8::NamedWeights& layer : weights)
    metadata[exponent_name(layer.name)] = std::to_string(layer.exponent);
  write_safetensors(file, int8_weight_views(weights), metadata);
}

void load_int8_weights(int8::State& state, const std::filesystem::path& file) {
  const TensorFile stored = read_safetensors(file);
  std::vector<int8::NamedWeights> weights;
  for (const StateView& view : stored.tensors) {
    const std::string layer = view.name.substr(0, view.name.rfind(".weight"));
    const auto exponent = stored.metadata.find(exponent_name(layer));
    const std::int32_t value =
        exponent == stored.metadata.end() ? kNoExponent : exponent_from(exponent->second);
    if (view.type != ElementType::I8 || value < -64 || value > 64)
      throw DataError(text(file.string(), ": '", view.name, "' is not an int8 tensor with '",
                           exponent_name(layer),
                           "' in the file's metadata; use weights of an elasticzo-int8 run"));
    weights.push_back({layer, view.shape, bytes_of(view), value});
  }
  try {
    int8::import_weights(state, weights);
  } catch (const UsageError& error) {
    throw DataError(text(file.string(), ": ", error.what()));
  }
}

std::vector<StateView> int8_state_views(const int8::State& state) {
  std::vector<StateView> views = int8_weight_views(int8::export_weights(state));
  views.push_back(
      number_state<std::int64_t>(kExponents, {state.exponents.begin(), state.exponents.end()}));
  views.push_back(number_state<std::int64_t>(kStep, {static_cast<std::int64_t>(state.step)}));
  return views;
}

void restore_int8_state(int8::State& state, const StateMap& saved) {
  const std::vector<int8::Layer>& layers = state.network.layers;
  const auto exponents =
      numbers_from<std::int64_t>(saved, kExponents, static_cast<std::int64_t>(layers.size()));
  const std::int64_t step = numbers_from<std::int64_t>(saved, kStep, 1)[0];
  std::vector<int8::NamedWeights> weights;
  for (std::size_t l = 0; l < layers.size(); ++l) {
    const auto found = saved.find(tensor_name(layers[l].name));
    if (found == saved.end())
      throw StorageError(text("the checkpoint has no weights '", layers[l].name, "'"));
    weights.push_back({layers[l].name, found->second.shape, bytes_of(found->second),
                       static_cast<std::int32_t>(exponents[l])});
  }
  try {
    int8::import_weights(state, weights);
  } catch (const UsageError& error) {
    throw StorageError(text("the checkpoint belongs to another network: ", error.what()));
  }
  state.step = static_cast<std::uint64_t>(step);
}

}  // namespace triaccel
