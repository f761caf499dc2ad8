// save_once DIRECTORY STEP SEED KEEP: one save in a process of its own, to be killed or starved of
// its system calls from outside. Exits with 5 when the checkpoint could not be stored.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "tests/checkpoint/sample_checkpoint.h"

int main(int argc, char** argv) {
  using namespace triaccel;
  if (argc != 5) return 2;
  const std::int64_t step = std::atoll(argv[2]);
  const std::uint64_t seed = std::strtoull(argv[3], nullptr, 10);
  CheckpointStore store(argv[1], std::atoi(argv[4]));
  const std::vector<CheckpointFile> files = sample_files(seed);
  ::access("/triaccel-save-begins", F_OK);  // seen in a trace; what comes before is not the save
  try {
    store.save(sample_info(step, seed), files);
  } catch (const StorageError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 5;
  }
  ::access("/triaccel-save-ends", F_OK);
  return 0;
}
