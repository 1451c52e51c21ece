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

// How a study's request and answer are written to the store. Supplied by server/rpc (protobuf), so
// that nothing in here knows wire types.
struct StudyCodec {
  std::function<std::string(const StudyRequest&)> encode_request = {};
  std::function<absl::StatusOr<StudyRequest>(std::string_view)> decode_request = {};
  std::function<std::string(const StudyAnswer&)> encode_answer = {};
  std::function<std::string(const ParallelPlan&)> encode_plan = {};
  std::function<std::string(const Estimate&)> encode_estimate = {};
  std::function<std::string(const Progress&)> encode_progress = {};
  std::function<std::string(const CalibrationReport&)> encode_calibration = {};
  // What a result was measured of, as it was stated.
  std::function<std::string(const Question&)> encode_question = {};
  std::function<absl::StatusOr<Question>(std::string_view)> decode_question = {};
  // StudyControl's.
  std::function<std::string(const Question&, const ParallelPlan&)> print_case = {};
};

}  // namespace meshwright
