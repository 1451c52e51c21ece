#include "server/tuner/import/megatron_layers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "search_space/import/layer_runs.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/layer_list.h"
#include "search_space/spec/model.h"
#include "search_space/spec/plan.h"
#include "server/tuner/export/export.h"
#include "server/tuner/import/import.h"
#include "server/tuner/import/imported_job.h"
#include "server/tuner/question/problem.h"
#include "tests/tuner/export/problems.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::Contains;
using testing::HasSubstr;

TEST(NumbersOfTest, ReadsWhatPythonReads) {
  const std::vector<int> mixed = {0, 1, 1, 0, 1, 1};
  EXPECT_EQ(NumbersOf("([0]+[1]*2)*2"), mixed);
  EXPECT_EQ(NumbersOf("[0,1,1]*2"), mixed);
  EXPECT_EQ(NumbersOf("([0]*1+[1]*2)+[0]+([1]*2)"), mixed);
  EXPECT_EQ(NumbersOf("[]*3+[1]*0"), std::vector<int>());
  for (const char* const text : {"", "1", "[0", "[0]*", "[0]*-1", "([1]", "[0]]", "[0] [1]",
                                 "[0]*20000", "[0]*200*200", "((((((((((((((((((((([0])"}) {
    EXPECT_EQ(NumbersOf(text), std::nullopt) << text;
  }
}

constexpr char kArguments[] =
    "--num-layers 12 --hidden-size 1024 --num-attention-heads 16 --vocab-size 32000 "
    "--seq-length 4096 --micro-batch-size 1 --global-batch-size 128 --bf16 --swiglu ";

// Returns a letter for each layer: w has a window, f has full attention, and W and F have experts
// too.
std::string LettersOf(const ModelSpec& model) {
  std::string letters;
  for (const LayerRun& run : RunsOf(model)) {
    const bool has_experts = run.kind.feed_forward == FeedForwardKind::kExperts;
    const std::string both = run.kind.sliding_window > 0 ? "wW" : "fF";
    letters.append(static_cast<std::size_t>(run.count), both[has_experts ? 1 : 0]);
  }
  return letters;
}

struct Case {
  std::string flags;
  std::string letters;
};

// The sixth layer of six, and the second of two, has full attention (Gemma 3, gpt-oss). Experts
// begin with the first layer of so many.
const Case kCases[] = {
    {"--window-size 1023,0", "wwwwwwwwwwww"},
    {"--window-size -1,0", "ffffffffffff"},
    {"--window-attn-skip-freq 2", "ffffffffffff"},
    {"--window-size 1023,0 --window-attn-skip-freq 6", "wwwwwfwwwwwf"},
    {"--window-size '(127,0)' --window-attn-skip-freq 2", "wfwfwfwfwfwf"},
    {"--window-size 1023,0 --window-attn-skip-freq '[0]+[1]*10+[0]'", "fwwwwwwwwwwf"},
    {"--num-experts 8 --window-size 127,0 --window-attn-skip-freq 2", "WFWFWFWFWFWF"},
    {"--num-experts 8 --moe-layer-freq 3", "FffFffFffFff"},
    {"--num-experts 8 --moe-layer-freq '([0]*3+[1]*9)'", "fffFFFFFFFFF"},
    {"--num-experts 8 --first-k-dense-replace 2 --moe-layer-freq 2", "ffFfFfFfFfFf"},
    {"--num-experts 8 --moe-layer-freq '([0]+[1]*11)' --window-size 9,0 --window-attn-skip-freq 4",
     "wWWFWWWFWWWF"},
};

TEST(MegatronLayersTest, PatternsAreRead) {
  for (const Case& one : kCases) {
    SCOPED_TRACE(one.flags);
    const auto job = ImportJob({.file = "args.txt", .text = kArguments + one.flags, .devices = 8});
    ASSERT_TRUE(job.ok()) << job.status();
    EXPECT_EQ(LettersOf(*job->model), one.letters);
    for (const UnusedKey& key : job->unused) EXPECT_NE(key.reason, "") << key.key;
  }
}

TEST(MegatronLayersTest, WrongPatternsAreNamed) {
  const auto message = [](const std::string& flags) {
    const auto job = ImportJob({.file = "args.txt", .text = kArguments + flags, .devices = 8});
    return std::string(job.status().message());
  };
  EXPECT_THAT(message("--window-size 9,0 --window-attn-skip-freq [1]*11"),
              HasSubstr("window-attn-skip-freq = [1]*11; has 11 entries, must have one for each of "
                        "the 12 layers"));
  EXPECT_THAT(message("--window-size 9,0 --window-attn-skip-freq 0"),
              HasSubstr("must be a whole number from 1 on"));
  EXPECT_THAT(message("--num-experts 8 --moe-layer-freq [2]*12"),
              HasSubstr("must be a whole number or a list such as"));
  EXPECT_THAT(message("--num-experts 8 --moe-layer-freq ([0]*3+[1]*9)"),
              HasSubstr("moe-layer-freq = has no value; a list must stand in quotes"));
  EXPECT_THAT(message("--window-size left"), HasSubstr("must be tokens to the left and the right"));
}

// A script with the flag runs with a release that has it.
TEST(MegatronLayersTest, APatternTellsTheVersion) {
  const auto job =
      ImportJob({.file = "args.txt",
                 .text = std::string(kArguments) + "--window-size 9,0 --window-attn-skip-freq 4",
                 .devices = 8});
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->workload.framework_version, "0.15");
  EXPECT_THAT(job->notes, Contains(HasSubstr("window-attn-skip-freq: read as a job of version")));
}

constexpr char kGptOssFlags[] =
    "--num-layers 12 --hidden-size 1024 --num-attention-heads 16 --vocab-size 32000 "
    "--seq-length 4096 --micro-batch-size 1 --global-batch-size 128 --bf16 --normalization RMSNorm "
    "--quick-geglu --softmax-type learnable --glu-linear-offset 1.0 "
    "--activation-func-clamp-value 7.0 ";

// Megatron gives every linear layer a bias unless it is told not to.
TEST(MegatronLayersTest, FlagsOfGptOssAreRead) {
  const auto job = ImportJob({.file = "args.txt", .text = kGptOssFlags, .devices = 8});
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->model->mlp, MlpKind::kQuickGeglu);
  EXPECT_TRUE(job->model->attention_sinks);
  EXPECT_EQ(job->model->glu_offset, 1);
  EXPECT_EQ(job->model->activation_clamp, 7);
  EXPECT_EQ(BiasesOf(*job->model), LinearBiases::kAll);
  EXPECT_EQ(job->workload.framework_version, "0.15");
  for (const UnusedKey& key : job->unused) EXPECT_NE(key.reason, "") << key.key;
}

TEST(MegatronLayersTest, BiasesAndSoftmaxAreRead) {
  const auto biases = [](const std::string& flags) {
    const auto job = ImportJob({.file = "args.txt", .text = kGptOssFlags + flags, .devices = 8});
    EXPECT_TRUE(job.ok()) << job.status();
    return BiasesOf(*job->model);
  };
  EXPECT_EQ(biases("--disable-bias-linear"), LinearBiases::kNone);
  EXPECT_EQ(biases("--disable-bias-linear --add-qkv-bias"), LinearBiases::kQkv);
  EXPECT_EQ(biases("--add-qkv-bias"), LinearBiases::kAll);
  const auto job = ImportJob(
      {.file = "args.txt", .text = std::string(kArguments) + "--softmax-type off-by-one"});
  EXPECT_THAT(std::string(job.status().message()),
              HasSubstr("softmax-type = off-by-one; read are vanilla and learnable"));
}

// Returns Llama 2 70B whose layers have the kinds of `letters`, repeated.
Problem PatternProblem(const std::string& letters) {
  Problem problem = Llama70b("megatron-core", "0.15");
  Layers layers(80);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const char letter = letters[i % letters.size()];
    layers[i].sliding_window = letter == 'w' ? 1024 : 0;
  }
  SetLayers(layers, problem.model);
  return problem;
}

TEST(MegatronLayersTest, PatternsAreExportedAndComeBack) {
  const std::vector<Case> cases = {
      {"--window-size 1023,0 \\\n--window-attn-skip-freq 2 \\\n", "wf"},
      {"--window-size 1023,0 \\\n--window-attn-skip-freq 4 \\\n", "wwwf"},
      {"--window-attn-skip-freq '([1]*1+[0]*2+[1]*77)' \\\n", "wff" + std::string(77, 'w')},
      {"--window-attn-skip-freq '([0]*1+[1]*3+[0]*1+", "fwww"}};
  for (const Case& one : cases) {
    SCOPED_TRACE(one.letters);
    const Problem problem = PatternProblem(one.letters);
    const auto config = ExportPlan("megatron-core", problem, DensePlan());
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_EQ(config->versions, "0.15");
    EXPECT_THAT(config->text, HasSubstr(one.flags));
    EXPECT_THAT(config->left_out, testing::Not(Contains(HasSubstr("--softmax-type"))));
    const auto job = ImportJob(
        {.file = "run.sh", .text = config->command + " \\\n" + config->text, .devices = 128});
    ASSERT_TRUE(job.ok()) << job.status();
    ModelSpec model = problem.model;
    model.name.clear();
    EXPECT_EQ(*job->model, model);
  }
}

TEST(MegatronLayersTest, OlderReleasesAndOtherLayersAreRefused) {
  Problem problem = PatternProblem("wf");
  problem.workload.framework_version = "0.14";
  EXPECT_THAT(Exported("megatron-core", problem, DensePlan()),
              HasSubstr("workload.framework.version = 0.14; Megatron-Core has windows in some "
                        "layers only from 0.15 on"));
  problem = PatternProblem("wf");
  problem.model.layers.back().kind.sliding_window = 256;
  EXPECT_THAT(Exported("megatron-core", problem, DensePlan()),
              HasSubstr("windows of 256, 1024 tokens; Megatron-Core has one size"));
  problem = PatternProblem("wf");
  problem.model.layers.back().kind.head_dim = 256;
  EXPECT_THAT(Exported("megatron-core", problem, DensePlan()),
              HasSubstr("differs in more than its window"));
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
