#include "cli/program/answer_head.h"

#include <gtest/gtest.h>

#include "meshwright/v1/estimate.pb.h"
#include "proto/json/json.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

TEST(AnswerHeadTest, StandsBeforeTheAnswer) {
  v1::CaseError error;
  error.set_reason("R");
  EXPECT_EQ(WithHead(HeadOf(3), PrintJson(error, {})),
            R"({"format_version": 1, "exit_reason": "invalid_input", "reason": "R", )"
            R"("message": "", "fields": []})");
  EXPECT_EQ(WithHead(HeadOf(0), PrintJson(error, {.multiline = true})),
            "{\n  \"format_version\": 1,\n  \"exit_reason\": \"done\",\n  \"reason\": \"R\",\n"
            "  \"message\": \"\",\n  \"fields\": []\n}");
  EXPECT_EQ(WithHead(HeadOf(0), PrintJson(v1::FailedCase(), {})),
            R"({"format_version": 1, "exit_reason": "done"})");
}

// Rows may be many, and their order changes no answer.
TEST(AnswerHeadTest, HasTheQuestionWithoutItsRows) {
  v1::TuneRequest question;
  question.set_plan_count(3);
  question.add_history()->set_outcome("ok");
  question.mutable_trials()->set_launcher("replay");
  question.mutable_trials()->add_replay()->set_outcome("ok");
  const v1::AnswerHead head = HeadOf(0, "study-1", question);
  EXPECT_EQ(PrintJson(head, {}),
            R"({"format_version": 1, "exit_reason": "done", "study_id": "study-1", )"
            R"("question": {"plan_count": 3, "disabled_rules": [], "history": [], )"
            R"("dimensions": [], "trials": {"launcher": "replay", "replay": []}}})");
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
