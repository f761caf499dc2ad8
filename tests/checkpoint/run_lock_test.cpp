#include "triaccel/checkpoint/run_lock.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include "tests/checkpoint/sample_checkpoint.h"
#include "triaccel/base/error.h"

namespace triaccel {
namespace {

/// A pipe whose ends are closed with it.
struct Pipe {
  Pipe() { EXPECT_EQ(::pipe(ends.data()), 0); }
  ~Pipe() {
    close_end(0);
    close_end(1);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  void close_end(std::size_t end) {
    if (ends[end] >= 0) ::close(ends[end]);
    ends[end] = -1;
  }
  char read() const {
    char value = 0;
    return ::read(ends[0], &value, 1) == 1 ? value : '\0';
  }
  bool write(char value) const { return ::write(ends[1], &value, 1) == 1; }

  std::array<int, 2> ends = {-1, -1};
};

TEST(RunLockTest, IsSeenWithoutBeingTaken) {
  const TemporaryDirectory scratch;
  EXPECT_FALSE(is_run_locked(scratch.path() / "none"));
  EXPECT_FALSE(std::filesystem::exists(scratch.path() / "none"));
  {
    const RunLock lock(scratch.path());
    EXPECT_TRUE(is_run_locked(scratch.path()));
  }
  EXPECT_FALSE(is_run_locked(scratch.path()));
}

/// In a process of its own: waits for the start, tries to lock, says how it went ('w'on, 'l'ost or
/// 'e'rror), and keeps what it has until `hold` closes.
pid_t contender(const std::filesystem::path& run, Pipe& start, Pipe& result, Pipe& hold) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  start.close_end(1);
  hold.close_end(1);
  start.read();
  try {
    const RunLock lock(run);
    result.write('w');
    hold.read();
  } catch (const RunLocked&) {
    result.write('l');
    hold.read();
  } catch (...) {
    result.write('e');
  }
  ::_exit(0);
}

void wait_for(pid_t child) {
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
}

TEST(RunLockTest, HasOneWinnerInEachOfAHundredRaces) {
  const TemporaryDirectory temporary;
  for (int race = 0; race < 100; ++race) {
    Pipe start, result, hold;
    std::array<pid_t, 4> children = {};
    for (pid_t& child : children) child = contender(temporary.path() / "run", start, result, hold);
    start.close_end(1);
    std::string outcome;
    for (std::size_t i = 0; i < children.size(); ++i) outcome += result.read();
    std::sort(outcome.begin(), outcome.end());
    hold.close_end(1);
    for (const pid_t child : children) wait_for(child);
    ASSERT_EQ(outcome, "lllw") << "race " << race;
  }
}

TEST(RunLockTest, NamesTheHolderAndWhatToDo) {
  const TemporaryDirectory temporary;
  const RunLock held(temporary.path());
  try {
    const RunLock second(temporary.path());
    FAIL() << "locked twice";
  } catch (const RunLocked& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find(text("process ", ::getpid())), std::string::npos) << message;
    EXPECT_NE(message.find("--out"), std::string::npos) << message;
  }
}

TEST(RunLockTest, IsFreeAgainAfterItsScope) {
  const TemporaryDirectory temporary;
  { const RunLock held(temporary.path()); }
  EXPECT_NO_THROW(RunLock(temporary.path()));
}

TEST(RunLockTest, IsFreeAgainWhenTheHolderIsKilled) {
  const TemporaryDirectory temporary;
  Pipe start, result, hold;
  const pid_t holder = contender(temporary.path(), start, result, hold);
  start.close_end(1);
  ASSERT_EQ(result.read(), 'w');
  EXPECT_THROW(RunLock(temporary.path()), RunLocked);
  ::kill(holder, SIGKILL);
  wait_for(holder);
  EXPECT_NO_THROW(RunLock(temporary.path()));
}

TEST(RunLockTest, SaysWhenTheDirectoryCannotBeMade) {
  EXPECT_THROW(RunLock("/dev/null/run"), StorageError);
}

}  // namespace
}  // namespace triaccel
