#include "server/engine/answer_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "recorder/recorder.h"
#include "recorder/store_access.h"
#include "server/tuner/question/study_request.h"
#include "tests/engine/engine_fixture.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

class AnswerMemoryTest : public testing::Test {
 protected:
  std::string KeyOf(const StudyRequest& request, std::int64_t sequence) {
    return memory_.KeyOf(ResolvedBy(request), sequence).value().value();
  }
  bool Has(const std::string& key) { return memory_.Find(key, false) != nullptr; }

  Recorder recorder_ = Recorder::Open({.path = ":memory:"}).value();
  AnswerMemory memory_{DirectAccess(recorder_), TestCodec(), 10'000};
};

TEST_F(AnswerMemoryTest, KeysCoverTheQuestionAndItsWarnings) {
  const std::string key = KeyOf(SmallStudy(), 0);
  EXPECT_EQ(key.size(), 66U);  // a digest and a number
  EXPECT_EQ(KeyOf(SmallStudy(), 0), key);
  // There is no measurement up to that number.
  EXPECT_EQ(KeyOf(SmallStudy(), 7), key);
  StudyRequest other = SmallStudy();
  other.plan_count = 3;
  EXPECT_NE(KeyOf(other, 0), key);
  StudyRequest one = SmallStudy();
  one.warnings = {"ab", "c"};
  StudyRequest two = SmallStudy();
  two.warnings = {"a", "bc"};
  EXPECT_NE(KeyOf(one, 0), key);
  EXPECT_NE(KeyOf(one, 0), KeyOf(two, 0));
}

TEST_F(AnswerMemoryTest, AVendorsModelMayAnswerOtherwiseTheNextTime) {
  StudyRequest request = SmallStudy();
  request.cost_model = CostModelRequest{.name = "theirs"};
  EXPECT_EQ(memory_.KeyOf(ResolvedBy(request), 0).value(), std::nullopt);
}

// Each answer takes 2,258 bytes: its own 2,000, the key twice, and 256 of its entry.
TEST_F(AnswerMemoryTest, ForgetsWhatNobodyHasAskedForTheLongest) {
  const std::string answer(2000, 'a');
  for (const std::string key : {"1", "2", "3", "4"}) memory_.KeepUnrecorded(key, answer);
  EXPECT_TRUE(Has("1"));  // and so it was asked for last
  memory_.KeepUnrecorded("5", answer);
  EXPECT_TRUE(Has("1"));
  EXPECT_FALSE(Has("2"));
  EXPECT_TRUE(Has("5"));
  EXPECT_LE(memory_.bytes(), 10'000U);
  // One that is larger than the whole memory is not kept, and neither are the others.
  memory_.KeepUnrecorded("6", std::string(20'000, 'a'));
  EXPECT_FALSE(Has("6"));
  EXPECT_EQ(memory_.bytes(), 0U);
}

TEST_F(AnswerMemoryTest, FindsOnlyWhatHasAStudyIfOneIsNeeded) {
  memory_.KeepUnrecorded("k", "answer");
  EXPECT_NE(memory_.Find("k", false), nullptr);
  EXPECT_EQ(memory_.Find("k", true), nullptr);
  EXPECT_EQ(memory_.KeepRecorded("k", "answer", [] { return "study-1"; })->study_id, "study-1");
  EXPECT_EQ(memory_.Find("k", true)->study_id, "study-1");
  // An answer with a study stays.
  memory_.KeepUnrecorded("k", "other");
  EXPECT_EQ(memory_.Find("k", true)->answer, "answer");
}

TEST_F(AnswerMemoryTest, RecordsOnceForAllThatArriveTogether) {
  constexpr int kThreads = 8;
  std::atomic<int> record_count = 0;
  std::latch start(kThreads);
  std::vector<std::string> ids(kThreads);
  {
    std::vector<std::jthread> threads;
    for (std::string& id : ids) {
      threads.emplace_back([&] {
        start.arrive_and_wait();
        id = memory_
                 .KeepRecorded("k", "answer",
                               [&] { return "study-" + std::to_string(++record_count); })
                 ->study_id;
      });
    }
  }
  EXPECT_EQ(record_count, 1);
  EXPECT_THAT(ids, testing::Each("study-1"));
}

// Another server may delete the study of an answer, or its plans.
TEST_F(AnswerMemoryTest, AnAnswerWhoseStudyHasChangedIsNotGivenAgain) {
  AnswerMemory shared(DirectAccess(recorder_), TestCodec(), 10'000, /*is_shared=*/true);
  const auto keep = [&](const std::string& key, const std::string& id) {
    return shared.KeepRecorded(key, "answer", [&] {
      EXPECT_TRUE(recorder_.InsertStudy({.id = id}).ok());
      StudyEnding ending = {.study_id = id, .time_ms = 5};
      for (const int rank : {0, 1, 2}) {
        ending.plans.push_back({.study_id = id, .rank = rank, .state = "estimated"});
      }
      EXPECT_TRUE(recorder_.FinishStudy(ending).ok());
      return id;
    });
  };
  for (const std::string name : {"a", "b", "c"}) {
    EXPECT_EQ(keep(name, "study-" + name)->study_id, "study-" + name);
    EXPECT_NE(shared.Find(name, true), nullptr);
  }
  ASSERT_TRUE(recorder_.DeleteStudy({.study_id = "study-a"}).ok());
  EXPECT_EQ(shared.Find("a", true), nullptr);
  EXPECT_EQ(shared.Find("a", false), nullptr);
  EXPECT_EQ(keep("a", "study-a2")->study_id, "study-a2");
  EXPECT_NE(shared.Find("b", true), nullptr);
  ASSERT_TRUE(recorder_.DeleteStudy({.study_id = "study-b"}).ok());
  EXPECT_EQ(keep("b", "study-b2")->study_id, "study-b2");
  ASSERT_EQ(recorder_.DeleteEstimates(6)->plan_count, 3);
  EXPECT_EQ(shared.Find("c", false), nullptr);
}

TEST_F(AnswerMemoryTest, AFailureToRecordIsTriedAgain) {
  EXPECT_EQ(memory_.KeepRecorded("k", "answer", [] { return ""; })->study_id, "");
  EXPECT_EQ(memory_.KeepRecorded("k", "answer", [] { return "study-2"; })->study_id, "study-2");
  EXPECT_THROW(memory_.KeepRecorded("other", "answer",
                                    []() -> std::string { throw std::runtime_error("no"); }),
               std::runtime_error);
  EXPECT_EQ(memory_.KeepRecorded("other", "answer", [] { return "study-3"; })->study_id, "study-3");
}

TEST_F(AnswerMemoryTest, ForgetsTheAnswersOfAStudy) {
  memory_.KeepRecorded("a", "1", [] { return std::string("study-1"); });
  memory_.KeepRecorded("b", "2", [] { return std::string("study-2"); });
  memory_.Forget("study-1");
  EXPECT_EQ(memory_.Find("a", false), nullptr);
  EXPECT_NE(memory_.Find("b", false), nullptr);
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
