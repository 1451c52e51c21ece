#pragma once

#include <chrono>

#include "absl/status/statusor.h"
#include "meshwright/v1/placement.pb.h"
#include "server/convert/question_answers.h"
#include "server/placement/question.h"
#include "server/placement/tuner.h"
#include "server/tuner/question/knowledge.h"

namespace meshwright {

// Finds who runs where. CANCELLED or DEADLINE_EXCEEDED if the control ends it before all questions
// are answered and all programs solved; FAILED_PRECONDITION with reason NO_SOLVER if no solver
// takes so many jobs.
absl::StatusOr<v1::PlacementAnswer> PlaceJobs(const PlacementQuestion& question,
                                              const Knowledge& knowledge, PlacementControl control);

// Answers PlacementService.PlaceJobs until `end` at the latest.
absl::StatusOr<v1::PlaceJobsResponse> AnswerPlaceJobs(const v1::PlaceJobsRequest& request,
                                                      const QuestionContext& context,
                                                      std::chrono::system_clock::time_point end);

}  // namespace meshwright
