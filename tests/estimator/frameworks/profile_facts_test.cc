#include "estimator/frameworks/profile_facts.h"

#include <gmock/gmock.h>

#include <ostream>
#include <string>
#include <vector>

#include "search_space/spec/choices.h"
#include "search_space/spec/framework_profile.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::ElementsAre;
using testing::HasSubstr;

struct FlagCase {
  const char* key;
  bool FrameworkProfile::*field;
};

void PrintTo(const FlagCase& c, std::ostream* out) { *out << c.key; }

const FlagCase kFlagCases[] = {
    {"attention_copies_heads", &FrameworkProfile::attention_copies_heads},
    {"pipeline_sends_shards", &FrameworkProfile::pipeline_sends_shards},
    {"bias_gradient_is_fused", &FrameworkProfile::bias_gradient_is_fused},
    {"gradient_accumulation_is_fused", &FrameworkProfile::gradient_accumulation_is_fused},
    {"hides_backward_tensor_parallel", &FrameworkProfile::hides_backward_tensor_parallel},
    {"overlaps_only_sequence_parallel", &FrameworkProfile::overlaps_only_sequence_parallel},
    {"sequence_parallel_regathers_input", &FrameworkProfile::sequence_parallel_regathers_input},
    {"keeps_gathered_input_without_pipeline",
     &FrameworkProfile::keeps_gathered_input_without_pipeline},
};

class FlagFactTest : public testing::TestWithParam<FlagCase> {};

TEST_P(FlagFactTest, TrueOrFalse) {
  const auto [key, field] = GetParam();
  FrameworkProfile profile;
  for (const bool value : {true, false, true}) {
    FrameworkProfile expected;
    expected.*field = value;
    EXPECT_TRUE(SetFact(key, value ? "true" : "false", profile).ok());
    EXPECT_EQ(profile, expected);  // and nothing else changes
  }
  for (const char* bad : {"maybe", "1", "", "True"}) {
    const absl::Status status = SetFact(key, bad, profile);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad;
    EXPECT_THAT(std::string(status.message()), HasSubstr("true or false"));
    EXPECT_TRUE(profile.*field) << bad;
  }
}

INSTANTIATE_TEST_SUITE_P(All, FlagFactTest, testing::ValuesIn(kFlagCases),
                         [](const auto& test) { return std::string(test.param.key); });

struct NumberCase {
  const char* key;
  double (*field)(const FrameworkProfile&);
  bool allows_zero;
};

void PrintTo(const NumberCase& c, std::ostream* out) { *out << c.key; }

const NumberCase kNumberCases[] = {
    {"low_time_ratio", [](const FrameworkProfile& p) { return p.low_time_ratio; }, false},
    {"high_time_ratio", [](const FrameworkProfile& p) { return p.high_time_ratio; }, false},
    {"extra_stored_bytes_per_hidden",
     [](const FrameworkProfile& p) { return p.extra_stored_bytes_per_hidden; }, true},
    {"extra_sharded_bytes_per_parameter",
     [](const FrameworkProfile& p) { return p.extra_sharded_bytes_per_parameter; }, true},
    {"logit_bytes_between_micro_batches",
     [](const FrameworkProfile& p) { return p.logit_bytes_between_micro_batches; }, true},
    {"memory_bound_traffic_ratio",
     [](const FrameworkProfile& p) { return p.memory_bound_traffic_ratio; }, false},
    {"collective_latency_per_node_seconds",
     [](const FrameworkProfile& p) { return p.collective_latency_per_node.count(); }, true},
    {"host_per_collective_rank_with_pipeline_seconds",
     [](const FrameworkProfile& p) { return p.host_per_collective_rank_with_pipeline.count(); },
     true},
};

class NumberFactTest : public testing::TestWithParam<NumberCase> {};

TEST_P(NumberFactTest, WithinItsLimit) {
  const NumberCase& c = GetParam();
  FrameworkProfile profile;
  EXPECT_TRUE(SetFact(c.key, "0.25", profile).ok());
  EXPECT_EQ(c.field(profile), 0.25);
  std::vector<std::string> bad = {"-1", "one", "", "1.5x", "nan", "inf", "1e30", "1e300"};
  if (!c.allows_zero) bad.emplace_back("0");
  for (const std::string& text : bad) {
    const absl::Status status = SetFact(c.key, text, profile);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    const std::string message(status.message());
    EXPECT_THAT(message, HasSubstr(std::string(c.key) + " = " + text + ";"));
    EXPECT_THAT(message, HasSubstr("must be a number from "));
  }
  EXPECT_EQ(SetFact(c.key, "0", profile).ok(), c.allows_zero);
}

INSTANTIATE_TEST_SUITE_P(All, NumberFactTest, testing::ValuesIn(kNumberCases),
                         [](const auto& test) { return std::string(test.param.key); });

struct LimitCase {
  const char* key;
  std::vector<const char*> good;
  std::vector<const char*> bad;
  const char* must;
};

void PrintTo(const LimitCase& c, std::ostream* out) { *out << c.key; }

const LimitCase kLimitCases[] = {
    {"allocator_efficiency",
     {"0.5", "1"},
     {"0", "1.25", "-1", "nan"},
     "must be a number from 0.1 to 1"},
    {"bucket_parameters", {"1", "25e6"}, {"0", "-1", "inf"}, "must be a number from 1 to"},
    {"checked_device_count", {"0", "512"}, {"2.7", "-1", "1e30"}, "must be a whole number from 0"},
    {"largest_zero_stage_with_pipeline", {"0", "3"}, {"1.5", "4"}, "must be a whole number from 0"},
};

class LimitFactTest : public testing::TestWithParam<LimitCase> {};

TEST_P(LimitFactTest, Within) {
  const LimitCase& c = GetParam();
  FrameworkProfile profile;
  for (const char* text : c.good) EXPECT_TRUE(SetFact(c.key, text, profile).ok()) << text;
  for (const char* text : c.bad) {
    const absl::Status status = SetFact(c.key, text, profile);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr(c.must));
  }
}

INSTANTIATE_TEST_SUITE_P(All, LimitFactTest, testing::ValuesIn(kLimitCases),
                         [](const auto& test) { return std::string(test.param.key); });

struct GradientCase {
  const char* key;
  std::optional<GradientDtype> FrameworkProfile::*field;
};

void PrintTo(const GradientCase& c, std::ostream* out) { *out << c.key; }

const GradientCase kGradientCases[] = {
    {"gradient_wire_dtype", &FrameworkProfile::gradient_wire_dtype},
    {"bf16_gradient_dtype", &FrameworkProfile::bf16_gradient_dtype},
};

class GradientFactTest : public testing::TestWithParam<GradientCase> {};

TEST_P(GradientFactTest, OneOfTheWords) {
  const auto [key, field] = GetParam();
  FrameworkProfile profile;
  EXPECT_FALSE((profile.*field).has_value());  // none stated: the gradients' own
  EXPECT_TRUE(SetFact(key, "fp32", profile).ok());
  EXPECT_EQ(profile.*field, GradientDtype::kFp32);
  EXPECT_TRUE(SetFact(key, "bf16", profile).ok());
  EXPECT_EQ(profile.*field, GradientDtype::kBf16);
  EXPECT_TRUE(SetFact(key, "fp16", profile).ok());
  EXPECT_EQ(profile.*field, GradientDtype::kFp16);
  const absl::Status status = SetFact(key, "int8", profile);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(std::string(status.message()),
            std::string(key) + " = int8; must be one of fp32, bf16, fp16");
  EXPECT_EQ(profile.*field, GradientDtype::kFp16);  // a refused fact changes nothing
}

INSTANTIATE_TEST_SUITE_P(All, GradientFactTest, testing::ValuesIn(kGradientCases),
                         [](const auto& test) { return std::string(test.param.key); });

TEST(SetFact, Dropout) {
  FrameworkProfile profile;
  EXPECT_TRUE(SetFact("dropout_ratio", "0.1", profile).ok());
  EXPECT_TRUE(SetFact("layernorm_dropout_ratio", "0.2", profile).ok());
  for (const char* key : {"dropout_ratio", "layernorm_dropout_ratio"}) {
    for (const char* bad : {"1", "-0.1", "nan", "half"}) {
      EXPECT_THAT(std::string(SetFact(key, bad, profile).message()),
                  HasSubstr("must be a number from 0 to 0.99"))
          << key << " " << bad;
    }
  }
  EXPECT_EQ(profile.dropout_ratio, 0.1);
  EXPECT_EQ(profile.layernorm_dropout_ratio, 0.2);
}

TEST(SetFact, CheckedRuns) {
  FrameworkProfile profile;
  EXPECT_TRUE(SetFact("checked_chips", "nvidia-h100-sxm5-80gb amd-mi300x", profile).ok());
  EXPECT_THAT(profile.checked_chips, ElementsAre("nvidia-h100-sxm5-80gb", "amd-mi300x"));
  EXPECT_TRUE(SetFact("checked_device_count", "512", profile).ok());
  EXPECT_EQ(profile.checked_device_count, 512);
  EXPECT_FALSE(SetFact("checked_device_count", "-8", profile).ok());
  EXPECT_FALSE(SetFact("checked_device_count", "many", profile).ok());
}

TEST(SetFact, NamesAnUnknownKey) {
  FrameworkProfile profile;
  const absl::Status status = SetFact("bias_gradients_are_fused", "true", profile);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("bias_gradients_are_fused"));
  EXPECT_EQ(profile, FrameworkProfile{});
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
