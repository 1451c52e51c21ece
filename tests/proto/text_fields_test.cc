#include "proto/json/text_fields.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "meshwright/v1/history.pb.h"
#include "meshwright/v1/service.pb.h"
#include "search_space/base/status.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr char kBad[] = "a\x1b[2J";
constexpr char kLines[] = "a\n\tb";

std::vector<std::string> FieldsOf(const std::vector<FieldViolation>& mistakes) {
  std::vector<std::string> fields;
  fields.reserve(mistakes.size());
  for (const FieldViolation& mistake : mistakes) fields.push_back(mistake.field);
  return fields;
}

// Sets every string field of a message and of the messages in it, and returns their paths.
std::vector<std::string> FillTexts(const std::string& text, const std::string& path,
                                   Message& message) {
  std::vector<std::string> paths;
  const auto& reflection = *message.GetReflection();
  const Descriptor& descriptor = *message.GetDescriptor();
  for (int i = 0; i < descriptor.field_count(); ++i) {
    const FieldDescriptor* const field = descriptor.field(i);
    const std::string at =
        path + (path.empty() ? "" : ".") + field->name() + (field->is_repeated() ? "[0]" : "");
    if (field->type() == FieldDescriptor::TYPE_STRING) {
      field->is_repeated() ? reflection.AddString(&message, field, text)
                           : reflection.SetString(&message, field, text);
      paths.push_back(at);
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      Message& part = field->is_repeated() ? *reflection.AddMessage(&message, field)
                                           : *reflection.MutableMessage(&message, field);
      for (std::string& inner : FillTexts(text, at, part)) paths.push_back(std::move(inner));
    }
  }
  return paths;
}

TEST(TextFieldsTest, EveryStringOfAQuestionIsChecked) {
  v1::CreateStudyRequest request;
  std::vector<std::string> paths = FillTexts(kBad, "", request);
  EXPECT_GT(paths.size(), 80U);
  // JSON in a string has its own parser, which checks it.
  std::erase(paths, "question.hugging_face_config_json");
  // ListFields sorts by number and the descriptor by declaration, which need not agree.
  EXPECT_THAT(FieldsOf(TextMistakes(request, "")), testing::UnorderedElementsAreArray(paths));
}

TEST(TextFieldsTest, CommandsAndNotesHaveLines) {
  v1::TuneRequest question;
  v1::JobTemplate& job = *question.mutable_trials()->mutable_job();
  job.add_command(kLines);
  job.add_environment(kLines);
  job.add_engine_flags(kLines);
  question.set_hugging_face_config_json(kLines);
  EXPECT_THAT(FieldsOf(TextMistakes(question, "question")),
              ElementsAre("question.trials.job.engine_flags[0]"));
  v1::CreateJobReportRequest report;
  report.set_note(kLines);
  report.set_job_name(kLines);
  EXPECT_THAT(FieldsOf(TextMistakes(report, "")), ElementsAre("job_name"));
}

// One bad case must not fail the others, so each is checked when it is answered.
TEST(TextFieldsTest, CasesAreLeftToTheirAnswers) {
  v1::EvaluatePlansRequest request;
  request.add_cases()->mutable_model()->set_name(kBad);
  EXPECT_THAT(TextMistakes(request, ""), IsEmpty());
  EXPECT_THAT(FieldsOf(TextMistakes(request.cases(0), "")), ElementsAre("model.name"));
  request.add_history()->mutable_model()->set_name(kBad);
  EXPECT_THAT(FieldsOf(TextMistakes(request, "")), ElementsAre("history[0].model.name"));
}

TEST(TextFieldsTest, BytesAreNoText) {
  v1::ImportHistoryRequest request;
  request.set_lines(kBad);
  EXPECT_THAT(TextMistakes(request, ""), IsEmpty());
}

TEST(CleanTextsTest, CleansEveryStringAndKeepsLinesOfLogs) {
  v1::ListAttemptsResponse attempts;
  v1::Attempt& attempt = *attempts.add_attempts();
  attempt.set_message("end\n\x1b[2J");
  attempt.add_nodes("n1\x07");
  attempt.set_log_tail("one\ntwo\x1b");
  CleanTexts(attempts);
  EXPECT_EQ(attempts.attempts(0).message(), "end  [2J");
  EXPECT_EQ(attempts.attempts(0).nodes(0), "n1 ");
  EXPECT_EQ(attempts.attempts(0).log_tail(), "one\ntwo ");
}

TEST(CleanTextsTest, CleansTheValuesOfMaps) {
  v1::RankedPlan plan;
  (*plan.mutable_exports())["megatron-core"] = "--a \\\n--b\x1b";
  CleanTexts(plan);
  EXPECT_EQ(plan.exports().at("megatron-core"), "--a \\\n--b ");
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
