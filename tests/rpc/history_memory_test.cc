// Tests that what is remembered of the history is what the store has, whatever comes in between.
#include "server/engine/history_memory.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "recorder/history_records.h"
#include "recorder/recorder.h"
#include "recorder/store_access.h"
#include "search_space/base/units.h"
#include "search_space/spec/plan.h"
#include "server/convert/convert.h"
#include "server/engine/engine_options.h"
#include "server/engine/measurement.h"
#include "server/engine/store_history.h"
#include "server/tuner/learning/modelled_job.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/resolved_study.h"
#include "tests/rpc/questions.h"
#include "tests/rpc/server_fixture.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

// Everything that an answer takes from a history.
std::vector<std::string> TextOf(const absl::StatusOr<StoreHistory>& history) {
  std::vector<std::string> text;
  EXPECT_TRUE(history.ok()) << history.status();
  if (!history.ok()) return text;
  for (const auto& row : history->rows) {
    text.push_back(fmt::format("{} {} {}", row->measurement_id,
                               MakePlanKey(row->resolved.plan).text,
                               row->step_time.value_or(Seconds(0)).count()));
  }
  text.insert(text.end(), history->warnings.begin(), history->warnings.end());
  return text;
}

class HistoryMemoryTest : public testing::Test {
 protected:
  // Returns a job of another length of the sequence for each number.
  static ResolvedStudy Job(int number) {
    v1::TuneRequest question = SmallQuestion();
    question.mutable_workload()->set_sequence_length(1024 * (1 + number));
    return FromWire(question, Known()).value();
  }

  MeasurementRecord Run(const std::string& id, int job) const {
    const ResolvedStudy asked = Job(job);
    const ParallelPlan plan =
        ResolvePlan({.tensor_parallel = 8, .micro_batch_size = 1}, asked.problem, "plan")
            .value()
            .plan;
    const PlanKey key = MakePlanKey(plan);
    return {.id = id,
            .source = MeasurementSource::kJobReport,
            .question = QuestionRecordOf(asked.request.question, asked.problem, codec_),
            .plan_key = key.text,
            .plan_digest = key.digest,
            .plan = codec_.encode_plan(plan),
            .step_time = Seconds(20)};
  }
  // Stores so many runs, of which every fifth cannot be read.
  void Insert(int count, int job) {
    MeasurementRecord run = Run("", job);
    const std::string key = run.plan_key;
    std::vector<MeasurementRecord> runs;
    for (int i = 0; i < count; ++i) {
      run.id = fmt::format("m-{}", ++run_count_);
      run.plan_key = run_count_ % 5 == 0 ? "of another program" : key;
      run.step_time = Seconds(20 + 0.01 * run_count_);
      runs.push_back(run);
    }
    ASSERT_TRUE(recorder_.InsertMeasurements(runs).ok());
  }
  std::int64_t Last() const { return recorder_.LastMeasurementSequence().value(); }

  // Compares both for several jobs: with own runs, and with none.
  void ExpectEqual(const std::string& when, std::int64_t sequence) {
    for (const int job : {0, 1, 7}) {
      const Problem problem = Job(job).problem;
      EXPECT_EQ(TextOf(memory_.Read(problem, sequence)),
                TextOf(ReadStoreHistory(recorder_, problem, Known(), codec_, sequence)))
          << when << ", job " << job;
    }
  }
  void ExpectEqual(const std::string& when) { ExpectEqual(when, Last()); }

  const StudyCodec codec_ = ProtobufCodec(Known());
  Recorder recorder_ = Recorder::Open({.path = ":memory:"}).value();
  HistoryMemory memory_{DirectAccess(recorder_), Known(), codec_};
  int run_count_ = 0;
};

TEST_F(HistoryMemoryTest, FollowsTheStore) {
  ExpectEqual("empty");
  Insert(6, 0);
  ExpectEqual("first runs");
  Insert(1, 0);
  ExpectEqual("one more");
  Insert(4, 1);
  ExpectEqual("of another job");
  ASSERT_TRUE(recorder_.RetractMeasurement("m-2", {.reason = "wrong"}).ok());
  ExpectEqual("after a retraction");
  Insert(3, 2);
  ExpectEqual("after further runs");
  ASSERT_TRUE(recorder_.RetractMeasurement("m-9", {.reason = "wrong"}).ok());
  Insert(2, 1);
  ExpectEqual("after both");
}

TEST_F(HistoryMemoryTest, KnowsWhatThereWasEarlier) {
  Insert(6, 0);
  ExpectEqual("all");
  ExpectEqual("fewer than it knows", 4);
  ASSERT_TRUE(recorder_.RetractMeasurement("m-1", {.reason = "wrong"}).ok());
  ExpectEqual("with the retraction");
  ExpectEqual("before the retraction", 6);
  ExpectEqual("with the retraction again");
}

TEST_F(HistoryMemoryTest, OtherChipsAndFrameworksAreApart) {
  Insert(5, 0);
  ExpectEqual("one chip");
  v1::TuneRequest question = SmallQuestion();
  question.mutable_cluster()->mutable_pools(0)->set_chip("nvidia-h100-sxm5-80gb");
  EXPECT_TRUE(memory_.Read(FromWire(question, Known())->problem, Last())->rows.empty());
  question = SmallQuestion();
  question.mutable_workload()->mutable_framework()->set_name("deepspeed");
  EXPECT_TRUE(memory_.Read(FromWire(question, Known())->problem, Last())->rows.empty());
  ExpectEqual("one chip again");
}

// Each limit is passed: that of rows to learn from, first at once and then by the last run; and
// that of more new rows than there is room for.
TEST_F(HistoryMemoryTest, KeepsTheNewestAndThoseOfTheJob) {
  Insert(30, 1);  // of a job whose runs are the oldest
  ExpectEqual("few");
  Insert(kMaxStoreRows, 2);
  ExpectEqual("some places are taken by runs that cannot be read");
  Insert(kMaxStoreRows / 4, 2);
  ExpectEqual("full");
  Insert(1, 0);
  ExpectEqual("one more than fit");
  Insert(2 * kMaxStoreRows, 0);
  ExpectEqual("all are new");
  Insert(10, 1);
  ExpectEqual("of the first job");
}

TEST_F(HistoryMemoryTest, RowsAreModelledAsTheyWouldBe) {
  Insert(3, 0);
  const auto history = memory_.Read(Job(0).problem, Last());
  ASSERT_TRUE(history.ok());
  ASSERT_EQ(history->rows.size(), 3U);
  for (const auto& row : history->rows) {
    ASSERT_NE(row->resolved.modelled, nullptr);
    const ModelledJob expected = ModelJob(*row->resolved.problem, row->resolved.plan);
    EXPECT_EQ(row->resolved.modelled->step_time, expected.step_time);
    EXPECT_EQ(row->resolved.modelled->reserved_memory, expected.reserved_memory);
    EXPECT_EQ(row->resolved.modelled->nodes, expected.nodes);
    EXPECT_EQ(row->resolved.modelled->plan_key, expected.plan_key);
    // Rows of one question share it.
    EXPECT_EQ(row->resolved.problem, history->rows.front()->resolved.problem);
  }
}

// More jobs than are remembered take turns.
TEST_F(HistoryMemoryTest, JobsThatAreForgottenAreReadAgain) {
  for (int job = 0; job < 8; ++job) Insert(2, job);
  for (int turn = 0; turn < 2; ++turn) {
    for (int job = 0; job < 8; ++job) {
      const Problem problem = Job(job).problem;
      EXPECT_EQ(TextOf(memory_.Read(problem, Last())),
                TextOf(ReadStoreHistory(recorder_, problem, Known(), codec_, Last())))
          << job;
    }
    Insert(1, 3);
  }
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
