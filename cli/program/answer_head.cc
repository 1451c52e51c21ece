#include "cli/program/answer_head.h"

#include <cstddef>

#include "cli/program/exit_code.h"
#include "proto/json/json.h"

namespace meshwright {
namespace {

// The version of the JSON that the program prints. It grows if a field is removed or changes its
// meaning; readers ignore fields that they do not know.
constexpr int kFormatVersion = 1;

}  // namespace

v1::AnswerHead HeadOf(int exit_code) {
  v1::AnswerHead head;
  head.set_format_version(kFormatVersion);
  head.set_exit_reason(std::string(ExitReason(exit_code)));
  return head;
}

v1::AnswerHead HeadOf(int exit_code, const std::string& study_id, const v1::TuneRequest& question) {
  v1::AnswerHead head = HeadOf(exit_code);
  head.set_study_id(study_id);
  *head.mutable_question() = question;
  head.mutable_question()->clear_history();
  if (question.has_trials()) head.mutable_question()->mutable_trials()->clear_replay();
  return head;
}

std::string WithHead(const v1::AnswerHead& head, std::string_view answer) {
  const bool is_multiline = answer.starts_with("{\n");
  const std::size_t bracket_size = is_multiline ? 2 : 1;  // with its line break
  std::string text = PrintJson(head, {.multiline = is_multiline});
  if (answer == "{}") return text;
  text.resize(text.size() - bracket_size);
  return text.append(is_multiline ? ",\n" : ", ").append(answer.substr(bracket_size));
}

}  // namespace meshwright
