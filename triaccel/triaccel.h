#pragma once

// All that a program which trains its own network needs. Include <torch/nn.h> as well.
#include "triaccel/base/error.h"
#include "triaccel/models/model_zoo.h"
#include "triaccel/models/network.h"
#include "triaccel/ops/tensors/segment.h"
#include "triaccel/telemetry/console/progress_line.h"
#include "triaccel/trainer/loop/training.h"
