#include "triaccel/telemetry/tables/paper_figures.h"

#include <array>

namespace triaccel {
namespace {

constexpr PaperFigure measured(std::string_view data, std::string_view model,
                               std::string_view method, std::string_view printed_name,
                               double accuracy, double seconds, double gigabytes, double score) {
  return {.data = data,
          .model = model,
          .method = method,
          .configuration = "",
          .printed_name = printed_name,
          .accuracy = accuracy,
          .seconds_per_epoch = seconds,
          .gigabytes = gigabytes,
          .score = score};
}

constexpr PaperFigure ablated(std::string_view model, std::string_view configuration,
                              std::string_view printed_name, double gigabytes, double reduction) {
  return {.data = "cifar10",
          .model = model,
          .method = configuration == "standard" ? "fp32" : "triaccel",
          .configuration = configuration,
          .printed_name = printed_name,
          .gigabytes = gigabytes,
          .reduction = reduction};
}

constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();

constexpr std::array<PaperFigure, 12> kTable1 = {{
    measured("cifar10", "resnet18", "fp32", "FP32 Baseline", 77.0, 21.0, 0.35, 10.48),
    measured("cifar10", "resnet18", "amp", "AMP (Static)", 77.2, 19.4, 0.32, 12.25),
    measured("cifar10", "resnet18", "triaccel", "Tri-Accel", 78.1, 19.5, 0.31, 12.92),
    measured("cifar10", "efficientnet-b0", "fp32", "FP32 Baseline", 78.3, 18.5, 0.30, 14.11),
    measured("cifar10", "efficientnet-b0", "amp", "AMP (Static)", 78.7, 17.2, 0.26, 17.59),
    measured("cifar10", "efficientnet-b0", "triaccel", "Tri-Accel", 79.4, 16.8, 0.26, 18.17),
    measured("cifar100", "resnet18", "fp32", "FP32 Baseline", 68.2, 24.3, 0.38, 7.39),
    measured("cifar100", "resnet18", "amp", "AMP (Static)", 68.7, 22.8, 0.35, 8.61),
    measured("cifar100", "resnet18", "triaccel", "Tri-Accel", 69.9, 22.4, 0.34, 9.18),
    measured("cifar100", "efficientnet-b0", "fp32", "FP32 Baseline", 72.8, 21.1, 0.33, 10.46),
    measured("cifar100", "efficientnet-b0", "amp", "AMP (Static)", 73.1, 19.6, 0.31, 12.03),
    measured("cifar100", "efficientnet-b0", "triaccel", "Tri-Accel", 74.3, 19.0, 0.29, 13.48),
}};

constexpr std::array<PaperFigure, 8> kTable2 = {{
    ablated("resnet18", "standard", "Standard Training", 0.350, kNothing),
    ablated("resnet18", "dynamic-batch", "+ Dynamic Batch Sizing", 0.321, 8.3),
    ablated("resnet18", "dynamic-precision", "+ Dynamic Precision", 0.310, 11.4),
    ablated("resnet18", "full", "+ Full Tri-Accel", 0.307, 12.3),
    ablated("efficientnet-b0", "standard", "Standard Training", 0.301, kNothing),
    ablated("efficientnet-b0", "dynamic-batch", "+ Dynamic Batch Sizing", 0.282, 6.0),
    ablated("efficientnet-b0", "dynamic-precision", "+ Dynamic Precision", 0.270, 10.0),
    ablated("efficientnet-b0", "full", "+ Full Tri-Accel", 0.265, 13.3),
}};

}  // namespace

std::span<const PaperFigure> paper_table1() { return kTable1; }

std::span<const PaperFigure> paper_table2() { return kTable2; }

std::span<const PaperFigure> paper_figures(PaperTable table) {
  switch (table) {
    case PaperTable::Table1:
      return kTable1;
    case PaperTable::Table2:
      return kTable2;
  }
  return {};
}

}  // namespace triaccel
