#include "triaccel/formats/preflight.h"

#include "triaccel/base/nearest_name.h"
#include "triaccel/formats/cifar.h"
#include "triaccel/formats/data_root.h"
#include "triaccel/formats/idx.h"
#include "triaccel/formats/point_cloud.h"
#include "triaccel/formats/text_corpus.h"

namespace triaccel {

std::vector<Finding> scan_data_set(std::string_view name, const std::filesystem::path& folder) {
  constexpr BadData mode = BadData::Report;
  if (name == "mnist" || name == "fashion-mnist") return read_idx_set(folder, name, mode).findings;
  if (name == "cifar10") return read_cifar10(folder, mode).findings;
  if (name == "cifar100") return read_cifar100(folder, mode).findings;
  if (name == "modelnet40") return read_point_clouds(folder, mode).findings;
  if (name == "text") return read_text_corpus(folder, mode).findings;
  throw UsageError(
      text("[scan_data_set] no such data set '", name, "'", suggestion(name, data_set_names())));
}

}  // namespace triaccel
