#pragma once

#include <string>
#include <vector>

#include "triaccel/core/sampler.h"
#include "triaccel/data/data_files.h"
#include "triaccel/int8_run/samples.h"
#include "triaccel/int8_run/steps.h"

namespace triaccel {

struct Int8Data {
  Int8Samples train = {}, test = {};
  SampleSplit split = {};                 // of `train`
  std::vector<std::string> notices = {};  // records that were dropped, and why
  Int8Shape shape = {};                   // of what a network must take in and give out
};

/// Reads a set of images or point clouds. Throws UsageError for a set that holds neither, and where
/// images would have to be resized.
Int8Data load_int8_data(const DataOptions& options);

}  // namespace triaccel
