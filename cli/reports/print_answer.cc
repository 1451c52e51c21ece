#include "cli/reports/print_answer.h"

#include "cli/program/answer_head.h"
#include "proto/json/json.h"

namespace meshwright {

ReportNotes NotesForTerminal(const GlobalFlags& flags) {
  return {.has_color = StdoutHasColor(flags.color),
          .columns = StdoutColumns(),
          .is_verbose = flags.is_verbose};
}

void PrintJsonAnswer(const google::protobuf::Message& answer, const v1::AnswerHead& head) {
  PrintData(WithHead(head, PrintJson(answer, {.multiline = true})) + "\n");
}

void PrintJsonAnswer(const google::protobuf::Message& answer) {
  PrintJsonAnswer(answer, HeadOf(kExitDone));
}

}  // namespace meshwright
