#pragma once

#include <google/protobuf/repeated_ptr_field.h>

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwright/v1/estimate.pb.h"
#include "search_space/spec/plan.h"
#include "server/tuner/answers/evaluate.h"

namespace meshwright {

// The answer to one case of `evaluate`.
struct CaseAnswer {
  std::optional<std::string> id = {};
  std::string group = {};   // empty: none
  ParallelPlan plan = {};   // if there is an estimate
  int sequence_length = 0;  // of the case
  absl::StatusOr<CalibratedEstimate> estimate = CalibratedEstimate();
};

// Returns the answers as messages, with the ranks of those that belong to a group.
std::vector<v1::EvaluateAnswer> CaseAnswersToWire(std::span<const CaseAnswer> answers);

// Compares pairs of the answers. A pair that names no case, or one without an estimate, gets an
// error.
std::vector<v1::ComparedPair> ComparePairs(
    std::span<const CaseAnswer> answers,
    const google::protobuf::RepeatedPtrField<v1::CasePair>& pairs);

}  // namespace meshwright
