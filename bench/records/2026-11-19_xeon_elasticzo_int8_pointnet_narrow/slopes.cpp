// How much of a zeroth-order slope is signal: for random directions, the difference of the losses
// of two passes over two halves of a large set of samples, and over batches of 32.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "triaccel/int8_run/sample_files.h"
#include "triaccel/int8_run/steps.h"
#include "triaccel/int8_run/weights_file.h"

using namespace triaccel;

int main(int argc, char** argv) {
  if (argc < 6) return 1;
  const SampleFiles data = open_sample_files("modelnet40", argv[1]);
  const std::string weights = argv[2];
  const int bp = std::atoi(argv[3]), zo_layers = std::atoi(argv[4]),
            directions = std::atoi(argv[5]);
  const int batches = 16, batch = 32;
  int8::State state = int8::initial_state(int8_network("pointnet-plain", 0, data.shape), 1);
  load_int8_weights(state, weights);
  Int8CpuSteps steps;
  std::vector<std::vector<double>> found(directions, std::vector<double>(batches));
  for (int d = 0; d < directions; ++d) {
    for (int b = 0; b < batches; ++b) {
      int8::State at = state;
      at.step = 1000000 + d;
      std::vector<std::int64_t> ids;
      for (int i = 0; i < batch; ++i)
        ids.push_back((std::int64_t{b * batch + i} * 7919) % data.train->count());
      Int8Options options =
          int8_options({.seed = 1, .bp_layers = bp, .zo_layers = zo_layers}, state.network, 1);
      int8::StepOptions now = options.at(0);
      now.bp_layers = 0;  // measures only
      now.zo_layers = std::min(zo_layers, 8 - bp);
      now.rate_exponent = 15;
      const int8::StepReport report = steps.train(at, data.train->reader, ids, now);
      found[d][b] = static_cast<double>(report.loss[0] - report.loss[1]) / 65536.0 / batch;
    }
  }
  // Variance within a direction is noise of the samples; between directions, signal.
  double within = 0, between = 0, agree = 0, rms = 0;
  for (const auto& row : found) {
    double mean = 0, square = 0;
    for (double value : row) mean += value / batches;
    for (double value : row) square += (value - mean) * (value - mean) / (batches - 1);
    for (double value : row) {
      const double others = (mean * batches - value) / (batches - 1);
      agree += (value > 0) == (others > 0);
      rms += value * value;
    }
    within += square / directions;
    between += mean * mean / directions;
  }
  between -= within / batches;
  std::printf(
      "%s: %d directions: slope rms %.4f bit, share of signal in its variance %.3f, sign agreement "
      "of a batch with the "
      "other %d %.3f\n",
      weights.c_str(), directions, std::sqrt(rms / directions / batches),
      between / (between + within), batches - 1, agree / directions / batches);
}
