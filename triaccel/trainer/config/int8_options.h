#pragma once

#include <cstdint>

#include "triaccel/int8_run/steps.h"
#include "triaccel/trainer/config/run_config.h"
#include "triaccel/trainer/int8/int8_data.h"

namespace triaccel {

/// The integer network a configuration names, for data of that shape. Throws UsageError for one
/// that has no integer form.
int8::Network int8_network_for(const RunConfig& config, const Int8Data& data);

/// What a configuration says about integer training, with the recipe's values where it says
/// nothing; runs in libtorch's thread pool.
Int8Options int8_options(const RunConfig& config, const int8::Network& network,
                         std::int64_t samples_per_epoch);

/// Where a configuration's samples are and which of them count.
DataOptions int8_data_options(const RunConfig& config);

}  // namespace triaccel
