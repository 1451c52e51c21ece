#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/plan.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/resolved_study.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/study_control.h"
#include "server/tuner/question/study_request.h"

namespace meshwright {

// Writes the requests and answers of studies as bytes for the store, and reads them. server/convert
// supplies it with protobuf, so that this folder does not know the wire types.
struct StudyCodec {
  std::function<std::string(const StudyRequest&)> encode_request = {};
  std::function<absl::StatusOr<ResolvedStudy>(std::string_view)> decode_request = {};
  // Returns the launcher of the request's trials, without reading anything else; empty if it states
  // none or cannot be read.
  std::function<std::string(std::string_view)> read_launcher = {};
  std::function<std::string(const StudyAnswer&)> encode_answer = {};
  std::function<std::string(const ParallelPlan&)> encode_plan = {};
  std::function<std::string(const Estimate&)> encode_estimate = {};
  std::function<std::string(const Progress&)> encode_progress = {};
  std::function<std::string(const CalibrationReport&)> encode_calibration = {};
  // Write and read the question of a result as it was stated.
  std::function<std::string(const Question&)> encode_question = {};
  std::function<absl::StatusOr<Question>(std::string_view)> decode_question = {};
  // Prints a case as StudyControl::print_case does.
  std::function<std::string(const Question&, const ParallelPlan&)> print_case = {};
};

}  // namespace meshwright
