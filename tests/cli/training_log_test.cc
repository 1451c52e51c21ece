#include "cli/input/training_log.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "search_space/base/status.h"
#include "tests/files/source_folder.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::ElementsAre;
using testing::HasSubstr;

// Returns the log on which the harness is tested too.
std::string Sample(const std::string& name) {
  std::ifstream file(SourceFolder() / "tests/workloads/logs" / (name + ".log"));
  EXPECT_TRUE(file.good()) << name;
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string Megatron(int step, double milliseconds) {
  return fmt::format(" iteration {:8}/ 50 | elapsed time per iteration (ms): {} | lm loss: 1.0 |\n",
                     step, milliseconds);
}

TEST(TrainingLogTest, FormatsAreThoseOfTheHarness) {
  EXPECT_THAT(LogFormats(), ElementsAre("deepspeed", "flagscale", "maxtext", "megatron", "nanotron",
                                        "nemo", "paddlenlp", "torchtitan"));
}

// The values are those of FormatsTest in tests/workloads/harness_parts_test.py.
TEST(TrainingLogTest, ReadsTheSamples) {
  const LoggedRun megatron = ReadTrainingLog(Sample("megatron"), {.warmup_steps = 0}).value();
  EXPECT_EQ(megatron.format, "megatron");
  EXPECT_EQ(megatron.step_count, 3);
  EXPECT_DOUBLE_EQ(megatron.step_time.count(), 1.5528);
  EXPECT_EQ(megatron.peak_memory, Bytes{40960LL << 20});
  const LoggedRun rate =
      ReadTrainingLog(Sample("deepspeed"), {.warmup_steps = 0, .global_batch_size = 256}).value();
  EXPECT_DOUBLE_EQ(rate.step_time.count(), 4.5);
  EXPECT_EQ(rate.peak_memory, Bytes{20LL << 30});
  const LoggedRun parts = ReadTrainingLog(Sample("deepspeed"), {.warmup_steps = 0}).value();
  EXPECT_DOUBLE_EQ(parts.step_time.count(), 4.0);
  EXPECT_DOUBLE_EQ(
      ReadTrainingLog(Sample("deepspeed_pipeline"), {.warmup_steps = 0})->step_time.count(), 0.51);
  EXPECT_DOUBLE_EQ(ReadTrainingLog(Sample("maxtext"), {.warmup_steps = 1})->step_time.count(), 0.5);
  EXPECT_DOUBLE_EQ(ReadTrainingLog(Sample("nemo"), {.warmup_steps = 0})->step_time.count(), 5.375);
  const LoggedRun nanotron = ReadTrainingLog(Sample("nanotron"), {.warmup_steps = 1}).value();
  EXPECT_EQ(nanotron.format, "nanotron");
  EXPECT_DOUBLE_EQ(nanotron.step_time.count(), 0.625);
  EXPECT_EQ(nanotron.peak_memory, Bytes{30720LL << 20});
  const LoggedRun paddle = ReadTrainingLog(Sample("paddlenlp"), {.warmup_steps = 1}).value();
  EXPECT_DOUBLE_EQ(paddle.step_time.count(), 80.81082);
  EXPECT_EQ(paddle.peak_memory, Bytes{49LL << 28});  // 12.25 GiB
  LogOptions titan = {
      .warmup_steps = 1, .global_batch_size = 64, .sequence_length = 8192, .device_count = 8};
  EXPECT_DOUBLE_EQ(ReadTrainingLog(Sample("torchtitan"), titan)->step_time.count(), 12);
  titan.device_count.reset();
  EXPECT_THAT(std::string(ReadTrainingLog(Sample("torchtitan"), titan).status().message()),
              HasSubstr("in the format torchtitan, its lines have rates, from which the time of a "
                        "step follows with the number of devices; state"));
  EXPECT_THAT(std::string(ReadTrainingLog(Sample("torchtitan"), {}).status().message()),
              HasSubstr("with the global batch size, the sequence length, the number of devices"));
  // All of its two steps are warm-up by default.
  EXPECT_FALSE(ReadTrainingLog(Sample("flagscale"), {.format = "flagscale"}).ok());
}

TEST(TrainingLogTest, WarmUpAndRepeatedStepsDoNotCount) {
  std::string log;
  for (int step = 1; step <= 8; ++step) log += Megatron(step, 100.0 * step) + Megatron(step, 9999);
  const LoggedRun run = ReadTrainingLog(log, {}).value();
  EXPECT_EQ(run.warmup_count, 5);
  EXPECT_EQ(run.step_count, 3);
  EXPECT_DOUBLE_EQ(run.step_time.count(), 0.7);
  // With --log-interval 10 the first line has the warm-up in its mean.
  const LoggedRun sparse =
      ReadTrainingLog(Megatron(10, 9000) + Megatron(20, 500) + Megatron(30, 300), {}).value();
  EXPECT_EQ(sparse.warmup_count, 1);
  EXPECT_DOUBLE_EQ(sparse.step_time.count(), 0.4);
}

TEST(TrainingLogTest, WhatCannotBeReadIsNamed) {
  const absl::Status unknown = ReadTrainingLog("", {.format = "mine"}).status();
  EXPECT_EQ(FieldViolations(unknown).front().field, "log_format");
  EXPECT_THAT(std::string(unknown.message()), HasSubstr("mine; must be one of deepspeed, "));
  const absl::Status empty = ReadTrainingLog("loss 3\n\xff\n", {}).status();
  EXPECT_EQ(FieldViolations(empty).front().field, "log");
  EXPECT_THAT(std::string(empty.message()), HasSubstr("has no line with the time of a step"));
  const absl::Status warm = ReadTrainingLog(Megatron(1, 5) + Megatron(2, 5), {}).status();
  EXPECT_THAT(std::string(warm.message()), HasSubstr("has 2 lines"));
}

// A hostile line costs time in proportion to its length.
TEST(TrainingLogTest, HostileLinesAreNoLoad) {
  std::string line = "CurrSamplesPerSec max allocated elapsed time per iteration completed step ";
  while (line.size() < 4'000'000) line += "global_step=1, iteration 1/ steps: 1 loss: ";
  EXPECT_FALSE(ReadTrainingLog(line, {}).ok());
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
