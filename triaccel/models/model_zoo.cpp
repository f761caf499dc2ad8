#include "triaccel/models/model_zoo.h"

#include <string_view>

#include "triaccel/base/error.h"
#include "triaccel/base/nearest_name.h"
#include "triaccel/models/families.h"

namespace triaccel {
namespace {

struct Family {
  std::string name;
  Network (*make)(const ModelOptions&);
};

const std::vector<Family>& families() {
  static const std::vector<Family> all = {
      {"lenet5", make_lenet5},           {"resnet18", make_resnet18},
      {"resnet50", make_resnet50},       {"vgg16-bn", make_vgg16_bn},
      {"densenet121", make_densenet121}, {"efficientnet-b0", make_efficientnet_b0},
      {"pointnet", make_pointnet},       {"pointnet-plain", make_plain_pointnet},
      {"gpt-small", make_gpt_small},     {"vit-small", make_vit_small},
  };
  return all;
}

// Far above any practical size: catches typing errors before allocation.
constexpr std::int64_t kMost = 1'000'000;

void check_range(std::string_view option, std::int64_t value, std::int64_t least) {
  require(value >= least && value <= kMost, "--model", option, " must be between ", least, " and ",
          kMost, ", got ", value);
}

}  // namespace

const std::vector<std::string>& model_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Family& family : families()) all.push_back(family.name);
    return all;
  }();
  return names;
}

Network make_model(const ModelOptions& options) {
  check_range("width", options.width, 0);
  check_range("input_channels", options.input_channels, 1);
  check_range("classes", options.classes, 1);
  check_range("image_size", options.image_size, 1);
  check_range("context_length", options.context_length, 1);
  check_range("vocabulary", options.vocabulary, 1);
  for (const Family& family : families())
    if (family.name == options.name) return family.make(options);
  throw UsageError(text("[--model] unknown model '", options.name, "'",
                        suggestion(options.name, model_names())));
}

}  // namespace triaccel
