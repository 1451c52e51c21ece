#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/plan.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/study_control.h"
#include "server/tuner/question/study_request.h"

namespace meshwright {

// Writes studies' requests and answers as bytes for the store, and reads them. server/convert
// supplies it (protobuf), so that nothing in here knows wire types.
struct StudyCodec {
  std::function<std::string(const StudyRequest&)> encode_request = {};
  std::function<absl::StatusOr<StudyRequest>(std::string_view)> decode_request = {};
  std::function<std::string(const StudyAnswer&)> encode_answer = {};
  std::function<std::string(const ParallelPlan&)> encode_plan = {};
  std::function<std::string(const Estimate&)> encode_estimate = {};
  std::function<std::string(const Progress&)> encode_progress = {};
  std::function<std::string(const CalibrationReport&)> encode_calibration = {};
  // Writes and reads the question that a result is about, as it was stated.
  std::function<std::string(const Question&)> encode_question = {};
  std::function<absl::StatusOr<Question>(std::string_view)> decode_question = {};
  // As StudyControl::print_case.
  std::function<std::string(const Question&, const ParallelPlan&)> print_case = {};
};

}  // namespace meshwright
