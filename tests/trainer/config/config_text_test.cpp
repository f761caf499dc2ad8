#include "triaccel/trainer/config/config_text.h"

#include <gtest/gtest.h>

#include "triaccel/base/error.h"
#include "triaccel/base/random.h"
#include "triaccel/trainer/config/run_config.h"
#include "triaccel/trainer/loop/run_parts.h"
#include "triaccel/trainer/loop/run_progress.h"

namespace triaccel {
namespace {

std::string error_of(const std::string& toml) {
  try {
    RunConfig config;
    apply_toml(config, toml, "run.toml");
    resolved(config);
    return "";
  } catch (const UsageError& error) {
    return error.what();
  }
}

TEST(ApplyToml, ReadsEveryFieldBack) {
  RunConfig config;
  config.train.lr = 0.1 + 0.2;
  config.train.deterministic = true;
  config.model.init_from = "a \"quoted\" \\ path\n";
  config.device.budget = "80%";
  RunConfig back;
  apply_toml(back, to_toml(config), "config.toml");
  EXPECT_EQ(to_toml(back), to_toml(config));
  EXPECT_EQ(back.train.lr, config.train.lr);
  EXPECT_EQ(back.model.init_from, config.model.init_from);
}

TEST(ApplyToml, NamesPlaceAndNearestKey) {
  EXPECT_EQ(error_of("[train]\nbacth = 3\n"),
            "run.toml:2:1: unknown key 'bacth' in [train]; did you mean 'batch'?");
  EXPECT_NE(error_of("[trian]\nbatch = 3\n").find("did you mean 'train'"), std::string::npos);
  EXPECT_NE(error_of("[train]\nbatch = \"many\"\n").find("run.toml:2:1: 'batch' must be a whole"),
            std::string::npos);
  EXPECT_NE(error_of("[train\nbatch = 3\n").find("run.toml:1:"), std::string::npos);
}

TEST(ApplyToml, TakesAWholeNumberWhereANumberIsWanted) {
  RunConfig config;
  apply_toml(config, "[train]\nepochs = 3\n", "run.toml");
  EXPECT_EQ(config.train.epochs, 3.0);
}

TEST(WithOpenOptions, UndoesWhatWasFilledIn) {
  RunConfig asked;
  asked.train.epochs = 3;
  asked.train.weight_decay = 0.1;
  RunConfig open = with_open_options(resolved(asked));
  EXPECT_EQ(to_toml(open), to_toml(asked));
  open.train.optimizer = OptimizerKind::AdamW;
  EXPECT_EQ(resolved(open).train.lr, 1e-3);
  EXPECT_EQ(resolved(open).train.weight_decay, 0.1);
  asked.train.lr = 0.3;
  EXPECT_EQ(with_open_options(resolved(asked)).train.lr, 0.3);
}

TEST(ApplyOverride, FindsTheTableOfABareKey) {
  RunConfig config;
  apply_override(config, "batch=7");
  apply_override(config, "model.name=lenet5");
  EXPECT_EQ(config.train.batch, 7);
  EXPECT_EQ(config.model.name, "lenet5");
  EXPECT_THROW(apply_override(config, "name=x"), UsageError) << "in several tables";
  EXPECT_THROW(apply_override(config, "bacth=7"), UsageError);
  EXPECT_THROW(apply_override(config, "train.batch=seven"), UsageError);
  EXPECT_THROW(apply_override(config, "nonsense"), UsageError);
}

TEST(ApplyOverride, TellsASwitchFromANumberOfTheSameName) {
  RunConfig config;
  for (const char* assignment : {"precision=off", "curvature=off", "batch=off", "batch=64"})
    apply_override(config, assignment);
  EXPECT_EQ(config.control.precision, "off");
  EXPECT_EQ(config.control.curvature, "off");
  EXPECT_EQ(config.control.batch, "off");
  EXPECT_EQ(config.train.batch, 64);
  EXPECT_EQ(resolved(config).control.batch, "off");
  EXPECT_THROW(apply_override(config, "batch=seven"), UsageError) << "no such switch";
}

TEST(ApplyToml, TakesNamesOfEarlierVersions) {
  RunConfig config;
  apply_toml(config, "[activations]\nkeep = \"coded\"\nlook_every = 7\n", "run.toml");
  EXPECT_EQ(config.activations.keep, "compressed");
  EXPECT_EQ(config.activations.profile_every, 7);
  apply_override(config, "look_every=8");
  EXPECT_EQ(config.activations.profile_every, 8);
  EXPECT_NE(to_toml(config).find("keep = \"compressed\""), std::string::npos);
  EXPECT_EQ(to_toml(config).find("look_every"), std::string::npos);
}

TEST(ApplyToml, IgnoresARemovedOptionThatWasOffAndRefusesItElse) {
  RunConfig config;
  EXPECT_TRUE(apply_toml(config, "[activations]\nprediction = \"off\"\n", "run.toml").empty());
  EXPECT_EQ(to_toml(config).find("prediction"), std::string::npos);
  try {
    apply_toml(config, "[activations]\nprediction = \"auto\"\n", "run.toml");
    ADD_FAILURE() << "no error";
  } catch (const UsageError& error) {
    EXPECT_STREQ(error.what(),
                 "run.toml:2:1: 'prediction' was removed: predicting blocks from similar ones "
                 "saved no memory; delete this line");
  }
}

// A change here refuses the checkpoints of earlier versions.
TEST(ConfigHash, IsThatOfEarlierVersions) {
  RunConfig config;
  for (const char* set :
       {"train.method=fp32", "model.name=lenet5", "train_samples=512", "train.batch=32", "steps=12",
        "device=cpu", "threads=1", "activations.keep=coded", "noise_share=1", "smallest_rate=0.1"})
    apply_override(config, set);
  EXPECT_EQ(config_hash(resolved(config)), 0xa7721856685c070bu);
}

TEST(ConfigHash, SeesWhatIsTrainedAndNotWhereItIsWritten) {
  RunConfig config, other;
  other.run.out = "elsewhere";
  other.device.budget = "1GiB";
  EXPECT_EQ(config_hash(config), config_hash(other));
  other.train.seed = 2;
  EXPECT_NE(config_hash(config), config_hash(other));
  RunConfig here, there;
  here.control.replay = "here/replayed_plans.jsonl";
  there.control.replay = "/there/replayed_plans.jsonl";
  EXPECT_EQ(config_hash(here), config_hash(there));
  EXPECT_NE(config_hash(here), config_hash(config));
  RunConfig apollo;
  apollo.train.optimizer = "apollo-mini";
  RunConfig sooner = apollo;
  sooner.train.projection_interval = 50;
  EXPECT_NE(config_hash(sooner), config_hash(apollo));
  RunConfig integers;
  integers.train.method = "elasticzo-int8";
  for (const char* set : {"int8.zo_layers=2", "int8.logit_gain=3"}) {
    RunConfig changed = integers;
    apply_override(changed, set);
    EXPECT_NE(config_hash(changed), config_hash(integers)) << set;
  }
}

TEST(Resolved, FillsInWhatDependsOnOthers) {
  RunConfig config;
  config.train.epochs = 3;
  EXPECT_EQ(resolved(config).train.lr, 0.05);
  EXPECT_EQ(resolved(config).train.warmup_epochs, 0.5);
  config.train.optimizer = "adamw";
  EXPECT_EQ(resolved(config).train.lr, 1e-3);
  EXPECT_EQ(resolved(config).run.name, "resnet18-synthetic-triaccel");
}

TEST(Resolved, HasAControlLoopUnlessAnotherMethodIsNamed) {
  for (const char* wish :
       {"precision=bf16", "curvature=hessian", "policy=paper", "kernels=stock"}) {
    RunConfig config;
    const Option& option = apply_override(config, wish);
    EXPECT_NO_THROW(option.require_effect(config, option.condition)) << wish;
    EXPECT_NO_THROW(resolved(config)) << wish;
  }
  RunConfig config;
  const Option& rate = apply_override(config, "zo_lr=5");
  EXPECT_THROW(rate.require_effect(config, rate.condition), UsageError);
}

TEST(Resolved, RefusesWhatOnlyTheControlLoopCanDoWhereThereIsNone) {
  for (const char* method : {"fp32", "amp"}) {
    for (const char* wish : {"precision=bf16", "policy=paper", "curvature=hessian",
                             "control.batch=micro", "prefer_fp16=true"}) {
      RunConfig config;
      config.train.method = method;
      apply_override(config, wish);
      EXPECT_THROW(resolved(config), UsageError) << method << " " << wish;
      EXPECT_NO_THROW(resolved(with_method(config, method))) << "a baseline of a comparison";
      EXPECT_NO_THROW(resolved(with_method(config, "triaccel")));
    }
    RunConfig config;
    config.train.method = method;
    for (const char* harmless : {"curvature=off", "rho_low=0.5", "kernels=gemm"})
      apply_override(config, harmless);
    EXPECT_NO_THROW(resolved(config));
  }
}

TEST(Resolved, NamesTheFlagOfABatchThatIsSmallerThanTheSmallest) {
  RunConfig config;
  config.control.batch_rules.smallest = 16;
  config.control.batch_rules.largest = 8;
  try {
    resolved(config);
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("[--largest-batch]"), std::string::npos);
  }
}

TEST(Resolved, RefusesALargestBatchBelowTheFirst) {
  const auto message = [](std::int64_t largest, const char* mode, std::int64_t batch) {
    RunConfig config;
    config.train.method = "triaccel";
    config.train.batch = batch;
    config.train.accumulate = 2;
    config.control.batch = mode;
    config.control.batch_rules.largest = largest;
    try {
      resolved(config);
      return std::string();
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
  };
  EXPECT_EQ(message(64, "elastic", 32), "");
  EXPECT_EQ(message(0, "elastic", 32), "");
  EXPECT_EQ(message(32, "micro", 32), "") << "the bound of a pass";
  EXPECT_EQ(message(63, "elastic", 32),
            "[--largest-batch] must not lie below the first batch, got 63 and 64; lower --batch or "
            "omit --largest-batch");
  EXPECT_NE(message(96, "elastic", 0), "") << "two passes of the usual 96";
}

TEST(ScheduleOf, CutsOnlyAWarmUpThatNobodyAskedFor) {
  RunConfig config;
  config.train.batch = 10;
  config.train.steps = 60;
  EXPECT_EQ(schedule_of(resolved(config), 1000).total_samples, 600);
  EXPECT_EQ(schedule_of(resolved(config), 1000).warmup_samples, 100);
  EXPECT_EQ(schedule_of(resolved(config), 10).warmup_samples, 50) << "five epochs";
  config.train.warmup_epochs = 0.5;
  EXPECT_EQ(schedule_of(resolved(config), 1000).warmup_samples, 500);
  config.train.steps = 0;
  config.train.epochs = 2;
  config.train.warmup_epochs = 1;
  EXPECT_EQ(schedule_of(resolved(config), 1000).warmup_samples, 1000);
}

TEST(WantsChannelsLast, WhereOurKernelsDoUnlessToldOtherwise) {
  RunConfig config;
  config.train.method = "fp32";
  EXPECT_FALSE(wants_channels_last(config, c10::kCUDA));
  config.train.method = "triaccel";
  EXPECT_TRUE(wants_channels_last(config, c10::kCUDA));
  EXPECT_TRUE(wants_channels_last(config, c10::kCPU));
  config.model.memory_format = "contiguous";
  EXPECT_FALSE(wants_channels_last(config, c10::kCUDA));
}

TEST(RunProgress, KeepsWhatARunHasCostAcrossARollback) {
  RunProgress earlier, later;
  earlier.step = 10;
  earlier.peak_bytes = 500;
  later.step = 20;
  later.peak_bytes = 400;
  later.peak_reserved_bytes = 900;
  later.memory_retries = 3;
  earlier.keep_costs_of(later);
  EXPECT_EQ(earlier.step, 10);
  EXPECT_EQ(earlier.peak_bytes, 500);
  EXPECT_EQ(earlier.peak_reserved_bytes, 900);
  EXPECT_EQ(earlier.memory_retries, 3);
}

// Every mutation of a sound configuration that makes it wrong is answered with a message.
TEST(Resolved, RefusesTwoHundredBrokenConfigurations) {
  const std::vector<std::string> wrong_values = {"train.method=fp17",
                                                 "train.epochs=0",
                                                 "train.epochs=-1",
                                                 "train.epochs=nan",
                                                 "train.steps=-5",
                                                 "zeroth_order.zo_epsilon=0",
                                                 "train.batch=-96",
                                                 "train.batch=1.5",
                                                 "train.batch=99999999999",
                                                 "train.accumulate=0",
                                                 "train.optimizer=sdg",
                                                 "train.optimizer_state=fp16",
                                                 "train.lr=-0.1",
                                                 "train.lr=nan",
                                                 "train.momentum=1",
                                                 "train.momentum=-0.1",
                                                 "train.label_smoothing=1",
                                                 "train.clip=-1",
                                                 "train.ema=1",
                                                 "train.ema=-0.5",
                                                 "train.patience=-1",
                                                 "train.control_interval=0",
                                                 "train.seed=-1",
                                                 "train.deterministic=maybe",
                                                 "model.name=resnet81",
                                                 "model.stem=cifra",
                                                 "model.width=-8",
                                                 "model.init_from=/no/such/file",
                                                 "model.memory_format=last",
                                                 "data.name=cifar11",
                                                 "data.val_split=-1",
                                                 "data.train_samples=-1",
                                                 "data.image_size=-32",
                                                 "data.context_length=0",
                                                 "data.augment=7",
                                                 "data.bad_data=ignore",
                                                 "device.device=gpu",
                                                 "device.threads=-1",
                                                 "device.threads=9999",
                                                 "device.budget=lots",
                                                 "device.budget=0%",
                                                 "device.budget=120%",
                                                 "device.budget=3 parsecs",
                                                 "run.checkpoint_every=-1",
                                                 "run.keep=0",
                                                 "run.keep=5000",
                                                 "run.watchdog_seconds=-1",
                                                 "model.name=gpt-small",
                                                 "model.name=pointnet",
                                                 "data.name=text",
                                                 "data.name=modelnet40"};
  int refused = 0;
  for (const std::string& assignment : wrong_values) {
    try {
      RunConfig config;
      apply_override(config, assignment);
      resolved(config);
      ADD_FAILURE() << "accepted " << assignment;
    } catch (const UsageError& error) {
      EXPECT_FALSE(std::string(error.what()).empty());
      ++refused;
    }
  }
  // Misspelt keys and syntax errors, each with its line.
  std::vector<std::string> keys;
  for (const Option& option : all_options())
    keys.push_back(text("[", option.table, "]\n", option.key));
  for (std::size_t i = 0; refused < 200; ++i) {
    const std::string key = keys[i % keys.size()];
    const std::string toml = i < keys.size()       ? key + "x = 1\n"
                             : i < 2 * keys.size() ? key + " = [1, 2]\n"
                             : i < 3 * keys.size() ? key + " = \n"
                                                   : key + " = 1979-05-27\n";
    const std::string error = error_of(toml);
    ASSERT_NE(error.find("run.toml:2:"), std::string::npos) << toml << error;
    ++refused;
  }
  EXPECT_EQ(refused, 200);
}

}  // namespace
}  // namespace triaccel
