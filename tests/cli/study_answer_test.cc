#include "cli/reports/study_answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/program/exit_code.h"
#include "search_space/base/status.h"
#include "server/engine/study_record.h"
#include "server/process/exit_code.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::HasSubstr;

v1::GetStudyResponse Answer(const std::string& state, const std::string& outcome) {
  v1::GetStudyResponse answer;
  answer.mutable_study()->set_state(state);
  answer.mutable_study()->set_outcome(outcome);
  return answer;
}

TEST(EndingStatusTest, ResultIsFineAlsoWhenTheDeadlineCutIt) {
  v1::GetStudyResponse answer = Answer("succeeded", "deadline_cut");
  answer.mutable_result()->add_plans();
  EXPECT_TRUE(EndingStatus(answer).ok());
}

TEST(EndingStatusTest, NoTrialRan) {
  v1::GetStudyResponse answer = Answer("succeeded", "all_trials_failed");
  answer.mutable_result()->add_trials();
  const absl::Status status = EndingStatus(answer);
  EXPECT_EQ(ExitCode(status), kExitTrialsFailed);
  EXPECT_THAT(std::string(status.message()), HasSubstr("none of 1 trials"));
}

TEST(EndingStatusTest, NothingFits) {
  v1::GetStudyResponse answer = Answer("succeeded", "no_feasible_plan");
  answer.mutable_infeasible()->mutable_nearest();
  answer.mutable_infeasible()->set_missing_bytes(1234);
  answer.mutable_infeasible()->set_binding_memory_kind("weights");
  answer.mutable_infeasible()->add_suggestions("16 nodes instead of 8");
  const absl::Status status = EndingStatus(answer);
  EXPECT_EQ(Reason(status), "NO_FEASIBLE_PLAN");
  EXPECT_EQ(ExitCode(status), kExitInfeasible);
  EXPECT_THAT(std::string(status.message()), HasSubstr("1234 bytes"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("weights"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("16 nodes instead of 8"));
}

TEST(EndingStatusTest, CancelledAlsoWithAPlan) {
  v1::GetStudyResponse answer = Answer("cancelled", "cancelled");
  EXPECT_EQ(ExitCode(EndingStatus(answer)), kExitInterrupted);
  answer.mutable_result()->add_plans();
  EXPECT_EQ(ExitCode(EndingStatus(answer)), kExitInterrupted);
}

TEST(EndingStatusTest, FailedSearches) {
  EXPECT_EQ(ExitCode(EndingStatus(Answer("failed", "deadline_cut"))), kExitDeadline);
  EXPECT_EQ(ExitCode(EndingStatus(Answer("failed", "failed"))), kExitInternal);
}

// The status is the one that an embedded search would have returned, from what the store keeps.
TEST(EndingStatusTest, FailedSearchesKeepTheirCodeAndReason) {
  const absl::Status errors[] = {
      WithReason(absl::UnimplementedError("cluster.pools: several"), "MIXED_CLUSTER_SEARCH"),
      absl::InternalError("checker: a: b"), absl::DeadlineExceededError("deadline reached; "),
      absl::InvalidArgumentError("")};
  for (const absl::Status& error : errors) {
    v1::GetStudyResponse answer = Answer("failed", "failed");
    answer.mutable_study()->set_error_message(ErrorText(error));
    EXPECT_EQ(EndingStatus(answer), error) << ErrorText(error);
  }
}

TEST(EndingStatusTest, OtherTextIsNoCode) {
  for (const std::string text : {"it broke", "the study failed: bad_alloc",
                                 "INTERNAL: ", "INTERNAL of course: no", "OK: fine", ""}) {
    v1::GetStudyResponse answer = Answer("failed", "failed");
    answer.mutable_study()->set_error_message(text);
    const std::string message = text == "INTERNAL: " ? "" : text;
    EXPECT_EQ(EndingStatus(answer), absl::InternalError(message));
  }
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
