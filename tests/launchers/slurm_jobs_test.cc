#include "server/launchers/slurm/slurm_jobs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "search_space/base/units.h"
#include "server/launchers/jobs/job_engine.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct Case {
  std::string name;
  std::string line;  // of squeue
  JobState state;
  std::string reason;
  std::optional<JobEnd> end = {};
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

const Case kCases[] = {
    {"Pending", "7|a|PENDING|Resources||0|0:07", JobState::kPending, "Resources"},
    {"PendingWithoutReason", "7|a|PENDING|None||0|0:07", JobState::kPending, "PENDING"},
    {"Requeued", "7|a|REQUEUED|BeginTime||0|0:07", JobState::kPending, "BeginTime"},
    {"Running", "7|a|RUNNING|None|n1|0|0:07", JobState::kRunning, "RUNNING"},
    {"OnItsWay", "7|a|COMPLETING|None|n1|0|0:07", JobState::kRunning, "COMPLETING"},
    {"UnknownWord", "7|a|NEW_WORD|None|n1|0|0:07", JobState::kRunning, "NEW_WORD"},
    {"Completed", "7|a|COMPLETED|None|n1|0|0:07", JobState::kEnded, "COMPLETED",
     JobEnd{.exit_code = 0}},
    // 3 << 8 is wait's status of exit code 3, and 9 that of signal 9.
    {"Failed", "7|a|FAILED|NonZeroExitCode|n1|768|0:07", JobState::kEnded, "NonZeroExitCode",
     JobEnd{.exit_code = 3}},
    {"Signal", "7|a|FAILED|JobLaunchFailure|n1|9|0:07", JobState::kEnded, "JobLaunchFailure",
     JobEnd{.exit_code = 137}},
    {"OutOfMemory", "7|a|OUT_OF_MEMORY|OutOfMemory|n1|9|0:07", JobState::kEnded, "OutOfMemory",
     JobEnd{.kind = JobEndKind::kOutOfMemory}},
    {"Timeout", "7|a|TIMEOUT|TimeLimit|n1|15|0:07", JobState::kEnded, "TimeLimit",
     JobEnd{.kind = JobEndKind::kTimeLimit}},
    {"NodeFail", "7|a|NODE_FAIL|NodeDown|n1|0|0:07", JobState::kEnded, "NodeDown",
     JobEnd{.kind = JobEndKind::kNodeFailure}},
    {"BootFail", "7|a|BOOT_FAIL|None|n1|0|0:07", JobState::kEnded, "BOOT_FAIL",
     JobEnd{.kind = JobEndKind::kNodeFailure}},
    {"Preempted", "7|a|PREEMPTED|None|n1|0|0:07", JobState::kEnded, "PREEMPTED",
     JobEnd{.kind = JobEndKind::kPreempted}},
    {"Cancelled", "7|a|CANCELLED|None||0|0:07", JobState::kEnded, "CANCELLED",
     JobEnd{.kind = JobEndKind::kCancelled}},
};

class SlurmStateTest : public testing::TestWithParam<Case> {};

TEST_P(SlurmStateTest, IsRead) {
  const std::vector<SlurmJob> jobs = ParseSqueue(GetParam().line + "\n");
  ASSERT_EQ(jobs.size(), 1u);
  EXPECT_EQ(jobs[0].name, "a");
  const JobStatus status = StatusOf(jobs[0]);
  EXPECT_EQ(status.external_id, "7");
  EXPECT_EQ(status.state, GetParam().state);
  EXPECT_EQ(status.reason, GetParam().reason);
  EXPECT_EQ(status.end, GetParam().end);
  EXPECT_EQ(status.run_time.has_value(), GetParam().end.has_value());
}

TEST(SlurmJobsTest, TimesAsSlurmPrintsThem) {
  const std::pair<std::string, std::optional<Seconds>> cases[] = {
      {"0:07", Seconds(7)},       {"59:59", Seconds(3599)},
      {"1:00:01", Seconds(3601)}, {"2-00:00:01", Seconds(172801)},
      {"0:00", std::nullopt},     {"INVALID", std::nullopt},
      {"", std::nullopt},         {"7", std::nullopt},
      {"1:2:3:4", std::nullopt}};
  for (const auto& [text, time] : cases) {
    const auto jobs = ParseSqueue("7|a|FAILED|None|n1|0|" + text);
    ASSERT_EQ(jobs.size(), 1U) << text;
    EXPECT_EQ(jobs[0].run_time, time) << text;
  }
}

INSTANTIATE_TEST_SUITE_P(All, SlurmStateTest, testing::ValuesIn(kCases),
                         [](const auto& each) { return each.param.name; });

TEST(SlurmJobsTest, WhatIsNoJobIsLeftOut) {
  EXPECT_THAT(ParseSqueue(""), IsEmpty());
  EXPECT_THAT(ParseSqueue("squeue: warning\n\n|||||\n12|short\n"), IsEmpty());
}

// The lines are as sacct prints them with --parsable2.
TEST(SlurmJobsTest, Accounting) {
  const auto jobs = ParseSacct(
      "5|s-t1-a1|CANCELLED by "
      "1000|0:15|n[1-2]|1-02:03:04\n6|s-t2-a1|FAILED|3:0|n1|00:00:00\n"
      "6.batch|batch|FAILED|3:0|n1|00:00:07\n");
  ASSERT_EQ(jobs.size(), 2u);
  EXPECT_EQ(StatusOf(jobs[0]).end, (JobEnd{.kind = JobEndKind::kCancelled}));
  EXPECT_EQ(StatusOf(jobs[0]).reason, "CANCELLED by 1000");
  EXPECT_THAT(StatusOf(jobs[0]).nodes, ElementsAre("n1", "n2"));
  EXPECT_EQ(StatusOf(jobs[0]).run_time, Seconds(93784));  // 86400 + 2 x 3600 + 3 x 60 + 4
  EXPECT_EQ(StatusOf(jobs[1]).end, (JobEnd{.exit_code = 3}));
  EXPECT_FALSE(StatusOf(jobs[1]).run_time.has_value());
}

// The file of completed jobs does not say with which code a job failed.
TEST(SlurmJobsTest, CompletionFile) {
  const auto jobs = ParseCompletion(
      "1|0|s-t1-a1|debug|2|n[1-2]|FAILED|2026-11-22T16:03:43\n"
      "2|0|s-t2-a1|debug|1|n3|COMPLETED|2026-11-22T16:03:44\n");
  ASSERT_EQ(jobs.size(), 2u);
  EXPECT_EQ(StatusOf(jobs[0]).end, (JobEnd{.kind = JobEndKind::kExited}));
  EXPECT_EQ(StatusOf(jobs[1]).end, (JobEnd{.exit_code = 0}));
}

TEST(SlurmJobsTest, Nodes) {
  EXPECT_THAT(NodeNames(""), IsEmpty());
  EXPECT_THAT(NodeNames("n1"), ElementsAre("n1"));
  EXPECT_THAT(NodeNames("n1,gpu05"), ElementsAre("n1", "gpu05"));
  EXPECT_THAT(NodeNames("n[1-2,09-11],x[3],y"),
              ElementsAre("n1", "n2", "n09", "n10", "n11", "x3", "y"));
  EXPECT_THAT(NodeNames("n[1-"), ElementsAre("n[1-"));
  EXPECT_THAT(NodeNames("n[0-2147483647]"), ElementsAre("n[0-2147483647]"));  // of no cluster
  EXPECT_THAT(NodeNames("n[a-b]"), ElementsAre("n[a-b]"));
  // The number behind the last one is no int.
  EXPECT_THAT(NodeNames("n[2147483646-2147483647]"), ElementsAre("n2147483646", "n2147483647"));
  EXPECT_THAT(NodeNames("n[00000000001-2]"), ElementsAre("n[00000000001-2]"));
  // Several ranges have no more nodes than a cluster, either: the second stays as it is.
  EXPECT_EQ(NodeNames("a[1-40000],b[1-40000]").size(), 40'001u);
}

TEST(SlurmJobsTest, ReasonsThatDoNotPass) {
  for (const char* const reason : {"PartitionNodeLimit", "PartitionTimeLimit", "InvalidAccount",
                                   "QOSMaxNodePerJobLimit", "AssocMaxWallDurationPerJobLimit"}) {
    EXPECT_TRUE(IsHopeless(reason)) << reason;
  }
  for (const char* const reason :
       {"None", "Resources", "Priority", "Dependency", "BeginTime", "AssocGrpCpuLimit",
        "QOSGrpNodeLimit", "QOSMaxJobsPerUserLimit", "AssocMaxJobsLimit", "PartitionInactive",
        "JobHeldUser", "ReqNodeNotAvail"}) {
    EXPECT_FALSE(IsHopeless(reason)) << reason;
  }
}

TEST(SlurmJobsTest, TimeLimitsAreWholeMinutes) {
  EXPECT_THAT(SlurmFlags({.time_limit = Seconds(1)}), testing::Contains("--time=1"));
  EXPECT_THAT(SlurmFlags({.time_limit = Seconds(60)}), testing::Contains("--time=1"));
  EXPECT_THAT(SlurmFlags({.time_limit = Seconds(61)}), testing::Contains("--time=2"));
}

TEST(SlurmJobsTest, ScriptQuotesEverything) {
  const std::string script =
      SlurmScript({.command = {"run", "it's", "$HOME"}, .environment = {{"A", "b c"}}});
  EXPECT_THAT(script, HasSubstr("export A='b c'\n"));
  EXPECT_THAT(script, HasSubstr("'run' 'it'\\''s' '$HOME'\n"));
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
