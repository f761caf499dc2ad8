#include "triaccel/trainer/loop/watchdog.h"

#include <gtest/gtest.h>

#include <atomic>

namespace triaccel {
namespace {

using namespace std::chrono_literals;

TEST(Watchdog, NamesTheSectionThatHangs) {
  std::atomic<int> calls = 0;
  std::string section;
  {
    Watchdog dog(0.05, [&](const std::string& name, double seconds) {
      section = name;
      EXPECT_GE(seconds, 0.05);
      ++calls;
    });
    dog.enter("save");
    while (calls == 0) std::this_thread::sleep_for(5ms);
  }
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(section, "save");
}

TEST(Watchdog, KeepsQuietWhileThereAreSignsOfLife) {
  std::atomic<int> calls = 0;
  {
    Watchdog dog(0.5, [&](const std::string&, double) { ++calls; });
    for (int i = 0; i < 20; ++i) {
      std::this_thread::sleep_for(5ms);
      dog.alive();
    }
  }
  EXPECT_EQ(calls, 0);
}

TEST(Watchdog, WatchesNothingWithoutATimeout) {
  Watchdog dog(0, [](const std::string&, double) { FAIL(); });
  std::this_thread::sleep_for(20ms);
}

}  // namespace
}  // namespace triaccel
