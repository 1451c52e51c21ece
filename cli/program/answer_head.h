#pragma once

#include <string>
#include <string_view>

#include "meshwright/v1/service.pb.h"

namespace meshwright {

// Returns the head of an answer with which the program ends with this exit code.
v1::AnswerHead HeadOf(int exit_code);

// The same for the answer to a question, with the id of the study that is kept; empty: none is.
v1::AnswerHead HeadOf(int exit_code, const std::string& study_id, const v1::TuneRequest& question);

// Returns the JSON object `answer`, which PrintJson wrote, with the fields of the head before its
// own.
std::string WithHead(const v1::AnswerHead& head, std::string_view answer);

}  // namespace meshwright
