#pragma once

#include "triaccel/trainer/config/option.h"

namespace triaccel {

/// Every option of a run, in the order of the configuration file: the one list behind flags, files,
/// key=value overrides, --print-config and the saved config.toml.
const std::vector<Option>& all_options();

/// The headings of help, in the order they are shown.
std::vector<std::string_view> option_topics();

// When options have an effect.
bool has_control_loop(const RunConfig& config);
bool estimates_losses(const RunConfig& config);  // zo, elasticzo or elasticzo-int8
bool has_boundary(const RunConfig& config);      // elasticzo or elasticzo-int8
bool follows_paper(const RunConfig& config);     // triaccel by the paper's equations
bool follows_robust(const RunConfig& config);    // triaccel by our own rules
bool trains_in_floats(const RunConfig& config);
bool takes_images(const RunConfig& config);  // the data set holds images

inline constexpr Condition kControlLoop = {"--method triaccel", has_control_loop};
inline constexpr Condition kPaperPolicy = {"--method triaccel --policy paper", follows_paper};
inline constexpr Condition kRobustPolicy = {"--method triaccel --policy robust", follows_robust};
inline constexpr Condition kFloats = {"a --method other than elasticzo-int8", trains_in_floats};
inline constexpr Condition kImages = {"a --data set of images", takes_images};

namespace topics {
inline constexpr std::string_view kData = "Model and data";
inline constexpr std::string_view kTraining = "Training";
inline constexpr std::string_view kMemory = "Memory and precision";
inline constexpr std::string_view kRun = "Run";
inline constexpr std::string_view kControl = "Control loop (--method triaccel)";
inline constexpr std::string_view kPrecision = "Precision per layer (--method triaccel)";
inline constexpr std::string_view kCurvature = "Learning rate per layer (--method triaccel)";
inline constexpr std::string_view kBatch = "Batch size (--method triaccel)";
inline constexpr std::string_view kActivations = "Compressed activations";
inline constexpr std::string_view kZeroth = "Zeroth-order estimates (--method zo, elasticzo)";
inline constexpr std::string_view kInt8 = "Integer training (--method elasticzo-int8)";
}  // namespace topics

// Each adds the options of one or two tables; called by all_options.
void add_train_options(std::vector<Option>& all);
void add_control_options(std::vector<Option>& all);
void add_zeroth_order_options(std::vector<Option>& all);
void add_int8_options(std::vector<Option>& all);
void add_model_options(std::vector<Option>& all);
void add_data_options(std::vector<Option>& all);
void add_activation_options(std::vector<Option>& all);
void add_run_options(std::vector<Option>& all);

}  // namespace triaccel
