#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <optional>
#include <set>

#include "tests/checkpoint/sample_checkpoint.h"

namespace triaccel {
namespace {

namespace fs = std::filesystem;

/// Runs a program, silently, and returns its wait status; `file_limit` caps what it may write to
/// one file, in bytes.
int run(const std::vector<std::string>& words, std::optional<rlim_t> file_limit = {}) {
  const pid_t child = ::fork();
  if (child == 0) {
    const int null = ::open("/dev/null", O_RDWR);
    ::dup2(null, 1);
    ::dup2(null, 2);
    ::setenv("ASAN_OPTIONS", "detect_leaks=0", 1);  // the leak checker cannot run under ptrace
    if (file_limit) {
      ::signal(SIGXFSZ, SIG_IGN);
      const rlimit limit{*file_limit, *file_limit};
      ::setrlimit(RLIMIT_FSIZE, &limit);
    }
    std::vector<char*> arguments;
    for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    ::execvp(arguments[0], arguments.data());
    ::_exit(127);
  }
  int status = -1;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  return status;
}

bool exited_with(int status, int code) { return WIFEXITED(status) && WEXITSTATUS(status) == code; }

/// The n-th call of its name in a process, as strace counts for --inject.
struct SystemCall {
  std::string name;
  int index;
};

/// A save of `new_step` over a store that holds step 1 made from seed 1.
struct Scenario {
  const char* name;
  std::int64_t new_step;
  int keep;
};

class InterruptedSave : public testing::TestWithParam<Scenario> {
 protected:
  static constexpr std::uint64_t kOldSeed = 1;
  static constexpr std::uint64_t kNewSeed = 2;

  void SetUp() override {
    if (!exited_with(run({"strace", "-o", "/dev/null", "true"}), 0))
      GTEST_SKIP() << "strace cannot trace here";
  }

  /// The store as it is before the save, with a leftover of an earlier kill.
  void prepare() const {
    fs::remove_all(directory_);
    CheckpointStore(directory_).save(sample_info(1, kOldSeed), sample_files(kOldSeed));
    fs::create_directories(directory_ / "step-9.tmp");
    std::ofstream(directory_ / "step-9.tmp" / "weights.safetensors") << "half";
  }

  std::vector<std::string> save_command() const {
    return {TRIACCEL_SAVE_ONCE, directory_.string(), std::to_string(GetParam().new_step),
            std::to_string(kNewSeed), std::to_string(GetParam().keep)};
  }

  int save_under_strace(std::vector<std::string> strace) const {
    for (const std::string& word : save_command()) strace.push_back(word);
    return run(strace);
  }

  /// What a save asks of the system, from its first call to its last. Calls that cannot change
  /// the disk, those for memory and the pipes of the undefined-behaviour sanitizer, are skipped.
  std::vector<SystemCall> calls_of_a_save() const {
    const std::set<std::string> memory = {"mmap", "munmap", "mprotect", "madvise", "brk", "futex"};
    prepare();
    const fs::path log = temporary_.path() / "log";
    EXPECT_TRUE(exited_with(save_under_strace({"strace", "-o", log.string()}), 0));
    std::map<std::string, int> seen;
    std::vector<SystemCall> calls;
    bool saving = false;
    int in_pipe = 0;
    std::ifstream lines(log);
    for (std::string line; std::getline(lines, line);) {
      if (line.find("triaccel-save-ends") != std::string::npos) return calls;
      const std::string name = line.substr(0, line.find('('));
      ++seen[name];
      if (name == "pipe2") in_pipe = 4;  // pipe2, write, close, close
      if (saving && in_pipe == 0 && !memory.contains(name)) calls.push_back({name, seen[name]});
      if (in_pipe > 0) --in_pipe;
      if (line.find("triaccel-save-begins") != std::string::npos) saving = true;
    }
    ADD_FAILURE() << "the trace of a save has no end";
    return calls;
  }

  int inject(const SystemCall& call, const std::string& fault) const {
    return save_under_strace({"strace", "-o", "/dev/null", "-e", "trace=" + call.name, "-e",
                              text("inject=", call.name, ":", fault, ":when=", call.index)});
  }

  /// The seed of the checkpoint that loads; it must be whole, and the old or the new one.
  std::uint64_t surviving_seed() const {
    const std::optional<LoadedCheckpoint> loaded = CheckpointStore(directory_).load_latest();
    if (!loaded.has_value()) return 0;
    EXPECT_TRUE(loaded->notices.empty()) << loaded->notices.front();
    EXPECT_TRUE(holds(*loaded, sample_files(loaded->info.config_hash)));
    return loaded->info.config_hash;
  }

  void expect_a_later_save_succeeds() const {
    CheckpointStore store(directory_, 1);
    EXPECT_TRUE(store.save(sample_info(7, 7), sample_files(7)).notices.empty());
    EXPECT_TRUE(holds(store.load_latest().value(), sample_files(7)));
    EXPECT_EQ(std::distance(fs::directory_iterator(directory_), {}), 1) << "something was left";
  }

  TemporaryDirectory temporary_{fs::exists("/dev/shm") ? "/dev/shm" : "/tmp"};  // syncs are free
  fs::path directory_ = temporary_.path() / "checkpoints";
};

TEST_P(InterruptedSave, KilledAtAnySystemCallLeavesTheOldOrTheNewState) {
  const std::vector<SystemCall> calls = calls_of_a_save();
  ASSERT_GT(calls.size(), 20u);
  std::size_t killed = 0;
  std::set<std::uint64_t> survivors;
  for (const SystemCall& call : calls) {
    prepare();
    killed += WIFSIGNALED(inject(call, "signal=KILL")) ? 1 : 0;
    const std::uint64_t seed = surviving_seed();
    survivors.insert(seed);
    ASSERT_TRUE(seed == kOldSeed || seed == kNewSeed) << "at " << call.name << " " << call.index;
    expect_a_later_save_succeeds();
  }
  EXPECT_GE(killed, calls.size() * 95 / 100) << "strace did not kill as told";
  EXPECT_EQ(survivors, (std::set{kOldSeed, kNewSeed}));
}

TEST_P(InterruptedSave, AnyFailingCallLeavesThePreviousStateOrFinishes) {
  const std::set<std::string> io = {"open",     "openat",   "write",    "fsync",
                                    "mkdir",    "mkdirat",  "rename",   "statfs",
                                    "unlinkat", "renameat", "renameat2"};
  std::size_t refused = 0;
  for (const SystemCall& call : calls_of_a_save()) {
    if (!io.contains(call.name)) continue;
    for (const std::string error : {"EIO", "ENOSPC", "EINTR"}) {
      prepare();
      const int status = inject(call, "error=" + error);
      const std::string where = text(error, " at ", call.name, " ", call.index);
      ASSERT_TRUE(exited_with(status, 0) || exited_with(status, 5)) << where;
      const std::uint64_t seed = surviving_seed();
      if (exited_with(status, 0))
        ASSERT_EQ(seed, kNewSeed) << where;
      else
        ASSERT_TRUE(seed == kOldSeed || seed == kNewSeed) << where;
      refused += exited_with(status, 5) ? 1 : 0;
      expect_a_later_save_succeeds();
    }
  }
  EXPECT_GE(refused, 20u) << "strace did not fail the calls as told";
}

INSTANTIATE_TEST_SUITE_P(Checkpoint, InterruptedSave,
                         testing::Values(Scenario{"OfALaterStep", 2, 1},
                                         Scenario{"OfTheSameStep", 1, 3}),
                         [](const auto& scenario) { return scenario.param.name; });

TEST(ShortWrite, LeavesThePreviousState) {
  const TemporaryDirectory temporary;
  const fs::path directory = temporary.path() / "checkpoints";
  CheckpointStore store(directory);
  store.save(sample_info(1, 1), sample_files(1));
  const std::vector<std::string> save = {TRIACCEL_SAVE_ONCE, directory.string(), "2", "2", "3"};
  const rlim_t largest_file = fs::file_size(directory / "step-1" / "weights.safetensors");
  for (rlim_t limit = 0; limit < largest_file; limit += 61) {
    ASSERT_TRUE(exited_with(run(save, limit), 5)) << "limit " << limit;
    ASSERT_TRUE(holds(store.load_latest().value(), sample_files(1))) << "limit " << limit;
  }
  EXPECT_TRUE(exited_with(run(save, largest_file), 0));
  EXPECT_TRUE(holds(store.load_latest().value(), sample_files(2)));
}

}  // namespace
}  // namespace triaccel
