#include "server/tuner/import/import.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "search_space/base/status.h"
#include "search_space/spec/choices.h"
#include "server/tuner/import/imported_job.h"
#include "server/tuner/import/job_source.h"
#include "server/tuner/import/readers.h"
#include "server/tuner/import/setting_reader.h"
#include "tests/search_space/models.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::Contains;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr char kArguments[] =
    "--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --vocab-size 32000 "
    "--seq-length 4096 --micro-batch-size 1 --global-batch-size 128 --bf16 ";

absl::StatusOr<ImportedJob> Import(const std::string& file, const std::string& text,
                                   int devices = 8) {
  return ImportJob({.file = file, .text = text, .model = Llama2_7b(), .devices = devices});
}

std::string Message(const absl::StatusOr<ImportedJob>& job) {
  return std::string(job.status().message());
}

TEST(ImportTest, ArgumentsAreEnough) {
  const auto job = Import("args.txt", std::string(kArguments) + "--tensor-model-parallel-size 2");
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->plan.tensor_parallel, 2);
  EXPECT_EQ(job->plan.data_parallel, 4);
  EXPECT_EQ(job->workload.precision, Precision::kBf16);
  EXPECT_EQ(job->workload.gradient_dtype, GradientDtype::kFp32);
  EXPECT_EQ(job->devices, std::nullopt);
  EXPECT_THAT(job->notes, IsEmpty());
}

// One argument a line, as `cat args` shows them.
TEST(ImportTest, ArgumentsOneALine) {
  const auto job = Import("args.txt",
                          "--num-layers 32\n--hidden-size=4096\n--seq-length 4096\n"
                          "--num-attention-heads 32\n--micro-batch-size 2\n--fp16\n");
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->plan.micro_batch_size, 2);
  // One micro-batch of every rank without --global-batch-size.
  EXPECT_EQ(job->workload.global_batch_size, 16);
  EXPECT_THAT(job->missing_of_model, ElementsAre(HasSubstr("--vocab-size")));
}

TEST(ImportTest, NamesEveryMistakeAtOnce) {
  const auto job =
      Import("run.sh",
             "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers x --hidden-size "
             "4096 --num-attention-heads 32 --seq-length $SEQ --micro-batch-size 1 "
             "--recompute-granularity most");
  EXPECT_THAT(FieldViolations(job.status()),
              testing::IsSupersetOf({Field(&FieldViolation::field, "from.num-layers"),
                                     Field(&FieldViolation::field, "from.seq-length"),
                                     Field(&FieldViolation::field, "from.recompute-granularity")}));
  EXPECT_THAT(Message(job), HasSubstr("num-layers = x; must be a whole number (run.sh line 1)"));
  EXPECT_THAT(Message(job), HasSubstr("depends on $SEQ, which the file does not say; state it "
                                      "with --set"));
  EXPECT_THAT(Message(job), HasSubstr("most; known here: selective, full"));
}

TEST(ImportTest, SizesOfJobAndClusterMustAgree) {
  const std::string script =
      "torchrun --nnodes 2 --nproc_per_node 8 pretrain_gpt.py " + std::string(kArguments);
  EXPECT_THAT(Message(Import("run.sh", script, 8)),
              HasSubstr("from.devices = 16 processes, and 8 devices in the cluster"));
  EXPECT_EQ(Import("run.sh", script, 16)->plan.data_parallel, 16);
}

// A number of nodes that the scheduler sets is the cluster's.
TEST(ImportTest, UnknownSizeIsThatOfTheCluster) {
  const auto job = Import(
      "run.sh",
      "torchrun --nnodes $N --nproc_per_node 8 pretrain_gpt.py " + std::string(kArguments), 32);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->plan.data_parallel, 32);
  EXPECT_THAT(job->notes, Contains(HasSubstr("depends on $N; read as the 32 devices")));
}

TEST(ImportTest, BatchMustBeAMultiple) {
  const auto job = Import("args.txt", std::string(kArguments), 96);
  EXPECT_THAT(Message(job), HasSubstr("global-batch-size = 128; must be a multiple of "
                                      "micro-batch-size x data parallelism = 96"));
}

TEST(ImportTest, ContradictionsAreNamed) {
  const std::string both = std::string(kArguments) + "--fp16 --expert-model-parallel-size 2";
  EXPECT_THAT(Message(Import("args.txt", both)), HasSubstr("from.bf16 = together with fp16"));
  EXPECT_THAT(Message(Import("args.txt", both)),
              HasSubstr("from.expert-model-parallel-size = 2; the model has no experts"));
  const auto twice = Import("args.txt", std::string(kArguments) + "--micro-batch-size 2");
  EXPECT_EQ(twice->plan.micro_batch_size, 2);
  EXPECT_THAT(twice->notes, ElementsAre("micro-batch-size = 1 and then 2; the last counts"));
}

TEST(ImportTest, UnknownKeysAreNamed) {
  const auto job =
      Import("args.txt", std::string(kArguments) + "--frobnicate 3 --lr 1 --swap-optimizer");
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_THAT(job->unused,
              ElementsAre(UnusedKey{"frobnicate", ""}, UnusedKey{"lr", "learning rate and length"},
                          UnusedKey{"swap-optimizer", "optimizer states wait on the host"}));
  EXPECT_THAT(job->notes, ElementsAre("swap-optimizer: optimizer states wait on the host"));
}

TEST(ImportTest, DeepSpeedBatch) {
  const std::string zero = R"("zero_optimization": {"stage": 2}, "bf16": {"enabled": true})";
  // 256 = 4 x 8 x 8
  const auto job = Import(
      "ds.json", R"({"train_batch_size": 256, "gradient_accumulation_steps": 8, )" + zero + "}");
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->plan.micro_batch_size, 4);
  EXPECT_EQ(job->plan.zero_stage, 2);
  EXPECT_EQ(job->workload.framework_name, "deepspeed");
  EXPECT_THAT(
      Message(Import("ds.json", R"({"train_batch_size": 256, "gradient_accumulation_steps": 8,
                                    "train_micro_batch_size_per_gpu": 2, )" +
                                    zero + "}")),
      HasSubstr("must be micro-batch x accumulation x data parallelism = 2 x 8 x 8"));
  EXPECT_THAT(
      Message(Import("ds.json", R"({"train_micro_batch_size_per_gpu": "auto", )" + zero + "}")),
      HasSubstr("depends on train_micro_batch_size_per_gpu = auto"));
}

TEST(ImportTest, DeepSpeedFileBesideMegatron) {
  const std::string script =
      "cat <<EOF > ds.json\n{\"train_batch_size\": 64, \"zero_optimization\": {\"stage\": "
      "1}}\nEOF\n"
      "deepspeed pretrain_gpt.py --deepspeed --deepspeed_config ds.json " +
      std::string(kArguments);
  EXPECT_THAT(
      Message(Import("run.sh", script)),
      HasSubstr("from.global-batch-size = 128; train_batch_size of the DeepSpeed file is 64"));
}

TEST(ImportTest, FilesOfNoKnownFramework) {
  for (const auto& [file, text] :
       std::vector<std::pair<std::string, std::string>>{{"a.yaml", "a: 1"},
                                                        {"a.json", "{\"a\": 1}"},
                                                        {"a.toml", "a = 1"},
                                                        {"a.sh", "python train.py --lr 1"}}) {
    const auto job = Import(file, text);
    EXPECT_EQ(Reason(job.status()), "UNKNOWN_LAUNCH_FILE") << file << job.status();
  }
  EXPECT_THAT(Message(Import("a.sh", "echo x")), HasSubstr("has no command that starts"));
}

TEST(ImportTest, BrokenFilesSayWhere) {
  EXPECT_THAT(Message(Import("a.toml", "[training]\nsteps = 2020-01-01\n")),
              HasSubstr("a.toml line 2 = must have a number, true, false, a text or a list"));
  EXPECT_THAT(Message(Import("a.toml", "[[training]]\n")), HasSubstr("not an array of tables"));
  EXPECT_THAT(Message(Import("a.yaml", "a: [1\nb: 2\n")), HasSubstr("a.yaml line"));
  EXPECT_THAT(Message(Import("a.yaml", "- 1\n")), HasSubstr("must be a mapping of named keys"));
  EXPECT_THAT(Message(Import("a.json", "{\"a\": }")), HasSubstr("parse error"));
}

// Degrees are divided by and multiplied with each other.
TEST(ImportTest, DegreesHaveLimits) {
  for (const char* degree : {"0", "-1", "2000000000"}) {
    EXPECT_THAT(Message(Import("args.txt", fmt::format("{}--tensor-model-parallel-size {} ",
                                                       kArguments, degree))),
                HasSubstr(fmt::format(
                    "tensor-model-parallel-size = {}; must be between 1 and 40000", degree)));
  }
  EXPECT_THAT(Message(Import("run.yaml",
                             "base_emb_dim: 8\nper_device_batch_size: 1\n"
                             "ici_tensor_parallelism: 0\n")),
              HasSubstr("ici_tensor_parallelism = 0; must be -1, or between 1 and 1000000"));
}

TEST(ImportTest, HostileFilesAreRefused) {
  const auto deep = [](const std::string& unit) {
    std::string text;
    for (int i = 0; i < 100'000; ++i) text += unit;
    return text;
  };
  EXPECT_THAT(Message(Import("a.json", "{\"a\": " + deep("["))), HasSubstr("a.json"));
  EXPECT_THAT(Message(Import("a.json", deep("{\"a\": ") + "1" + deep("}"))),
              HasSubstr("nested deeper than 64 levels"));
  EXPECT_THAT(Message(Import("a.toml", "a = " + deep("["))),
              HasSubstr("at most 64 lists and tables in each other"));
  EXPECT_THAT(Message(Import("a.toml", "a = " + deep("{a = "))),
              HasSubstr("at most 64 lists and tables in each other"));
  EXPECT_THAT(Message(Import("a.toml", "a = [\"\xff\"]")), HasSubstr("known"));
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    bomb += fmt::format("a{0}: &a{0} [", i);
    for (int j = 0; j < 10; ++j) bomb += fmt::format("*a{}{}", i - 1, j < 9 ? ", " : "]\n");
  }
  EXPECT_THAT(Message(Import("a.yaml", bomb)), HasSubstr("must be a mapping of named keys"));
}

TEST(ImportTest, OwnJsonHasNoKeyOfAFramework) {
  EXPECT_FALSE(HasKeyOfFramework(R"({"tensor_parallel": 2, "micro_batch_size": 1})"));
  EXPECT_TRUE(HasKeyOfFramework(R"({"zero_optimization": {"stage": 2}})"));
  EXPECT_TRUE(HasKeyOfFramework(R"({"model": {"tensor_model_parallel_size": 2}})"));
  EXPECT_FALSE(HasKeyOfFramework("--bf16"));
}

TEST(LayoutLayersTest, Parts) {
  EXPECT_EQ(LayoutLayers("Et*3|t*4|t*4|t*3mL"), (std::vector<int>{3, 4, 4, 3}));
  EXPECT_EQ(LayoutLayers("E|(t|)*2,m|L"), (std::vector<int>{0, 1, 1, 0, 0}));
  EXPECT_EQ(LayoutLayers("Ett|(tt|)*2L"), (std::vector<int>{2, 2, 2, 0}));
  EXPECT_EQ(LayoutLayers("Ex|L"), std::nullopt);
  EXPECT_EQ(LayoutLayers("(t"), std::nullopt);
  EXPECT_EQ(LayoutLayers("E()*2000000000t|L"), (std::vector<int>{1, 0}));
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
