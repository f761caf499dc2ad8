#include "triaccel/base/nearest_name.h"

#include <gtest/gtest.h>

#include <vector>

namespace triaccel {
namespace {

const std::vector<std::string> kKeys = {"batch", "epochs", "learning_rate", "momentum"};

TEST(NearestName, FindsATypo) {
  EXPECT_EQ(nearest_name("bacth", kKeys), "batch");
  EXPECT_EQ(nearest_name("learningrate", kKeys), "learning_rate");
}

TEST(NearestName, KeepsSilentWhenNothingIsClose) {
  EXPECT_EQ(nearest_name("zzzzzzzz", kKeys), "");
  EXPECT_EQ(nearest_name("x", {}), "");
  const std::vector<std::string> flags = {"--lr", "--smallest-rate", "--batch-rate", "--batch"};
  for (const char* far : {"--wd", "--learning-rate", "--batch-size", "--"})
    EXPECT_EQ(nearest_name(far, flags), "") << far;
  EXPECT_EQ(nearest_name("--bacth", flags), "--batch");
}

TEST(Suggestion, ListsWhatIsKnownWhenNothingIsClose) {
  EXPECT_EQ(suggestion("momentun", kKeys), "; did you mean 'momentum'?");
  EXPECT_EQ(suggestion("zzzzzzzz", kKeys), "; known: batch, epochs, learning_rate, momentum");
}

}  // namespace
}  // namespace triaccel
