#pragma once

#include <google/protobuf/repeated_ptr_field.h>

#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwright/v1/estimate.pb.h"
#include "meshwright/v1/service.pb.h"
#include "search_space/spec/plan.h"
#include "server/tuner/answers/evaluate.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/plan_model.h"
#include "server/tuner/question/study_request.h"

namespace meshwright {

// The answer to one case of `evaluate`.
struct CaseAnswer {
  std::optional<std::string> id = {};
  std::string group = {};   // empty: none
  ParallelPlan plan = {};   // if there is an estimate
  int sequence_length = 0;  // of the case
  std::string job = {};     // the work of a step and its devices, in words
  absl::StatusOr<CalibratedEstimate> estimate = CalibratedEstimate();
};

// Answers every case of a request in order. Mistakes of its history or its cost model are the error
// of every case. CANCELLED once `cancel` is requested.
absl::StatusOr<std::vector<CaseAnswer>> EvaluateCases(const v1::EvaluatePlansRequest& request,
                                                      const Knowledge& knowledge,
                                                      const HistorySource& source,
                                                      const std::stop_token& cancel,
                                                      const OpenPlanModel& open);

// Returns the answers as messages, with the ranks of those that belong to a group, and a warning if
// the cases of a group do different work.
std::vector<v1::EvaluateAnswer> CaseAnswersToWire(std::span<const CaseAnswer> answers);

// Compares pairs of the answers. A pair that names no case, or one without an estimate, gets an
// error.
std::vector<v1::ComparedPair> ComparePairs(
    std::span<const CaseAnswer> answers,
    const google::protobuf::RepeatedPtrField<v1::CasePair>& pairs);

}  // namespace meshwright
