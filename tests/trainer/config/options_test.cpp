#include "triaccel/trainer/config/options.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "triaccel/base/error.h"
#include "triaccel/trainer/config/config_text.h"

namespace triaccel {
namespace {

using Kind = Option::Kind;

const Option& option_named(std::string_view flag) {
  const auto found = std::ranges::find(all_options(), flag, &Option::flag);
  EXPECT_NE(found, all_options().end()) << flag;
  return *found;
}

/// What setting `written` answers; "" when it is taken.
std::string answer(const Option& option, const std::string& written) {
  RunConfig config;
  try {
    option.set_written(config, written, text("[", option.flag, "] "));
    return "";
  } catch (const UsageError& error) {
    return error.what();
  }
}

TEST(AllOptions, HaveANameAndAHelpLineEach) {
  std::set<std::string> flags, keys;
  const auto topics = option_topics();
  std::size_t everyday = 0;
  for (const Option& option : all_options()) {
    EXPECT_TRUE(flags.insert(std::string(option.flag)).second) << option.flag;
    for (const std::string_view alias : option.aliases)
      EXPECT_TRUE(flags.insert(std::string(alias)).second) << alias;
    EXPECT_TRUE(keys.insert(text(option.table, ".", option.key)).second) << option.flag;
    EXPECT_GE(option.help.size(), 8u) << option.flag;
    EXPECT_LE(option.help.size(), 90u) << option.flag;
    EXPECT_NE(option.help.back(), '.') << option.flag;
    EXPECT_NE(std::ranges::find(topics, option.topic), topics.end()) << option.flag;
    everyday += option.is_everyday;
  }
  EXPECT_GE(everyday, 15u);
  EXPECT_LE(everyday, 25u);
  EXPECT_GE(flags.size(), 100u);
}

TEST(AllOptions, HaveDefaultsThatTheyTake) {
  for (const Option& option : all_options()) {
    EXPECT_EQ(option.problem_with(option.get(RunConfig{})), "") << option.flag;
    EXPECT_TRUE(option.is_default(RunConfig{})) << option.flag;
  }
}

TEST(AllOptions, ReadBackWhatTheyShow) {
  for (const Option& option : all_options()) {
    RunConfig config;
    option.set_written(config, option.shown(RunConfig{}), "");
    EXPECT_EQ(to_toml(config), to_toml(RunConfig{})) << option.flag;
  }
}

TEST(AllOptions, RefuseValuesOfAnotherType) {
  for (const Option& option : all_options()) {
    std::vector<std::string> wrong;
    if (option.kind == Kind::Switch) wrong = {"maybe", "2", ""};
    if (option.kind == Kind::Whole) wrong = {"1.5", "seven", "", "1e99", "99999999999999999999"};
    if (option.kind == Kind::Number) wrong = {"nan", "seven", "", "1x"};
    if (option.kind == Kind::Choice) wrong = {"nosuch", "", "Auto"};
    if (option.kind == Kind::Text) wrong = {"\xff", "\xc3", "\xe2\x82", "a\x80", "\xed\xa0\x80"};
    for (const std::string& written : wrong)
      EXPECT_TRUE(answer(option, written).starts_with(text("[", option.flag, "] ")))
          << option.flag << " took '" << written << "'";
  }
}

TEST(AllOptions, TakeTheEndsOfTheirRangesAndNothingBeyond) {
  const auto written = [](const Option& option, double value) {
    return option.kind == Kind::Whole ? std::to_string(static_cast<std::int64_t>(value))
                                      : text(value);
  };
  int ends = 0;
  for (const Option& option : all_options()) {
    if (option.kind != Kind::Whole && option.kind != Kind::Number) continue;
    const Range& range = option.range;
    ASSERT_TRUE(std::isfinite(range.low)) << option.flag << " has no range";
    EXPECT_EQ(answer(option, written(option, range.low)).empty(), !range.above_low) << option.flag;
    const std::string below = answer(option, written(option, range.low - 1));
    EXPECT_NE(below.find("must"), std::string::npos) << option.flag;
    EXPECT_NE(below.find(text("got ", written(option, range.low - 1))), std::string::npos) << below;
    ++ends;
    if (!std::isfinite(range.high) || range.high > 1e6) continue;
    EXPECT_EQ(answer(option, written(option, range.high)).empty(), !range.below_high)
        << option.flag;
    EXPECT_NE(answer(option, written(option, 2 * range.high + 1)), "") << option.flag;
    ++ends;
  }
  EXPECT_GT(ends, 60);
}

TEST(AllOptions, MayTakeAutoInPlaceOfANumber) {
  const Option& ratio = option_named("--activation-ratio");
  RunConfig config;
  config.activations.keep = "compressed";
  ratio.set_written(config, "auto", "");
  EXPECT_EQ(ratio.shown(config), "auto");
  EXPECT_FALSE(ratio.is_default(config));
  EXPECT_NO_THROW(resolved(config));
  RunConfig read;
  apply_toml(read, to_toml(config), "config.toml");
  EXPECT_EQ(to_toml(read), to_toml(config));
  EXPECT_EQ(answer(ratio, "12"), "");
  EXPECT_NE(answer(ratio, "0").find("must lie in [1, 32]"), std::string::npos);
  EXPECT_NE(answer(ratio, "any").find("a number or auto, got 'any'"), std::string::npos);
  EXPECT_NE(answer(option_named("--lr"), "auto"), "");
}

TEST(AllOptions, OfCompressionGoWithABudgetThatMayLeadToIt) {
  const Option& every = option_named("--activation-profile-every");
  RunConfig config;
  EXPECT_FALSE(every.condition->holds(config));
  config.device.budget = "2GB";
  EXPECT_TRUE(every.condition->holds(config));
  config.device.lossy = LossyMeans::Never;
  EXPECT_FALSE(every.condition->holds(config));
}

TEST(AllOptions, TakeEveryNameTheyList) {
  for (const Option& option : all_options()) {
    if (option.values == nullptr) continue;
    for (const std::string& name : option.values()) {
      RunConfig config;
      option.set_written(config, name, "");
      EXPECT_EQ(option.shown(config), name) << option.flag;
      EXPECT_NE(answer(option, "nosuch").find(name), std::string::npos) << option.flag;
    }
  }
  EXPECT_EQ(
      answer(option_named("--optimizer"), "sdg"),
      "[--optimizer] must be one of sgd, adamw, adalomo or apollo-mini, got 'sdg'; did you mean "
      "'sgd'?");
  EXPECT_EQ(answer(option_named("--device"), "gpu7"),
            "[--device] must be one of auto, cpu or cuda, got 'gpu7'");
}

TEST(RequireEffect, KnowsWhichOptionsAMethodIgnores) {
  struct Case {
    const char* method;
    const char* setting;
    bool accepted;
  };
  for (const Case& c : std::vector<Case>{{"fp32", "kernels=nosuch", false},
                                         {"fp32", "zo_lr=5", false},
                                         {"fp32", "rho_low=0.5", false},
                                         {"fp32", "precision=bf16", false},
                                         {"fp32", "precision=fp32", true},
                                         {"fp32", "curvature=off", true},
                                         {"fp32", "int8_micro_batch=8", false},
                                         {"fp32", "activations.ratio=8", false},
                                         {"fp32", "zo_directions=2", false},
                                         {"fp32", "epochs=3", true},
                                         {"fp32", "clip=1", true},
                                         {"fp32", "context_length=64", false},
                                         {"fp32", "projection_interval=50", false},
                                         {"amp", "policy=paper", false},
                                         {"amp", "zo_lr=0", true},
                                         {"triaccel", "kernels=gemm", true},
                                         {"triaccel", "rho_low=0.5", true},
                                         {"triaccel", "tau_high=1", false},
                                         {"triaccel", "bp_layers=1", false},
                                         {"zo", "zo_lr=5", true},
                                         {"zo", "bp_layers=1", false},
                                         {"zo", "activations.keep=raw", true},
                                         {"zo", "activations.keep=compressed", false},
                                         {"elasticzo", "bp_layers=1", true},
                                         {"elasticzo", "reach=3", false},
                                         {"elasticzo", "move_boundary=1", true},
                                         {"elasticzo-int8", "move_boundary=1", false},
                                         {"elasticzo-int8", "bp_layers=1", true},
                                         {"elasticzo-int8", "budget=1GiB", false},
                                         {"elasticzo-int8", "reach=3", true},
                                         {"elasticzo-int8", "int8.zo_layers=4", true},
                                         {"elasticzo-int8", "logit_gain=4", true},
                                         {"elasticzo", "logit_gain=4", false},
                                         {"elasticzo-int8", "ema=0.9", false}}) {
    RunConfig config;
    config.train.method = c.method;
    const Option& option = apply_override(config, c.setting);
    if (c.accepted) {
      EXPECT_NO_THROW(option.require_effect(config, option.condition)) << c.method << c.setting;
      continue;
    }
    try {
      option.require_effect(config, option.condition);
      ADD_FAILURE() << "accepted " << c.method << " " << c.setting;
    } catch (const UsageError& error) {
      EXPECT_EQ(std::string(error.what()),
                text("[", option.flag, "] only has an effect with ", option.condition->needs));
    }
  }
  RunConfig config;
  config.model.name = "lenet5";
  const Option& stem = apply_override(config, "stem=cifar");
  EXPECT_THROW(stem.require_effect(config, stem.condition), UsageError);
  config.model.name = "vgg16-bn";
  EXPECT_NO_THROW(stem.require_effect(config, stem.condition));
}

TEST(Resolved, FillsInLearningRateAndWeightDecayByOptimizer) {
  struct Case {
    const char* optimizer;
    double lr, weight_decay;
  };
  for (const Case& c : {Case{"sgd", 0.05, 5e-4}, Case{"adamw", 1e-3, 0.05},
                        Case{"adalomo", 0.01, 0}, Case{"apollo-mini", 0.01, 0.05}}) {
    RunConfig config;
    config.train.optimizer = c.optimizer;
    EXPECT_EQ(resolved(config).train.lr, c.lr) << c.optimizer;
    EXPECT_EQ(resolved(config).train.weight_decay, c.weight_decay) << c.optimizer;
  }
}

TEST(Resolved, RefusesAStateInEightBitsOfOptimizersWithoutOne) {
  RunConfig config;
  config.train.optimizer_state = "fp8";
  config.train.optimizer = "apollo-mini";
  try {
    resolved(config);
    FAIL() << "accepted";
  } catch (const UsageError& error) {
    EXPECT_EQ(std::string(error.what()),
              "[--optimizer-state] only sgd and adamw have such a state; omit it for "
              "apollo-mini, whose state is small");
  }
}

TEST(Resolved, RefusesNamesThatLeaveTheFolderOfRuns) {
  for (const char* name : {".", "..", "../evil", "/abs", "a/b"}) {
    RunConfig config;
    config.run.name = name;
    EXPECT_THROW(resolved(config), UsageError) << name;
  }
  RunConfig config;
  config.run.name = std::string(300, 'n');
  EXPECT_THROW(resolved(config), UsageError);
  config.run.name = "\xff";
  EXPECT_THROW(resolved(config), UsageError);
  config.run.name = "größer 2.0";
  EXPECT_NO_THROW(resolved(config));
  config.run.name = "";
  config.model.init_from = std::string(300, 'n');
  EXPECT_THROW(resolved(config), UsageError);
}

TEST(Choice, IsParsedWhereItIsAssigned) {
  EXPECT_EQ(Choice<BadDataMode>("fail"), BadDataMode::Fail);
  EXPECT_EQ(Choice<BadDataMode>("skip"), BadDataMode::Skip);
  EXPECT_EQ(Choice<BadDataMode>("report"), BadDataMode::Report);
  try {
    Choice<BadDataMode>("repot");
    FAIL() << "a typo was taken";
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("did you mean 'report'"), std::string::npos);
  }
  RunConfig config;
  config.train.method = "elasticzo-int8";
  EXPECT_EQ(config.train.method, TrainMethod::ElasticZoInt8);
  EXPECT_THROW(config.train.method = "fp17", UsageError);
  EXPECT_EQ(config.train.method.name(), "elasticzo-int8");
  EXPECT_THROW(config.device.budget = "3 parsecs", UsageError);
}

}  // namespace
}  // namespace triaccel
