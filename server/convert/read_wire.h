#pragma once

#include <optional>
#include <vector>

#include "search_space/base/status.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/model.h"
#include "search_space/spec/plan.h"
#include "search_space/spec/workload.h"
#include "server/convert/message_reader.h"
#include "server/tuner/question/job_template.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/question_resolver.h"
#include "server/tuner/question/study_request.h"

namespace meshwright {

// These functions read the parts of a request from a reader of its message
// (proto/meshwright/v1/problem.proto). They find missing fields and unknown words; limits are
// checked by Validate and CheckQuestion.
ModelSpec ReadModel(const MessageReader& in);
WorkloadRequest ReadWorkload(const MessageReader& in);
ClusterRequest ReadCluster(const MessageReader& in);
PlanRequest ReadPlan(const MessageReader& in);

// Reads and checks the question of any message that has its three parts.
Question ReadQuestion(const MessageReader& in, const Knowledge& knowledge);

// Reads a measured result from any message that has the fields of HistoryRow. Checks for missing
// fields, limits, and whether the question allows the plan. A row without a mistake is resolved.
HistoryRow ReadHistoryRow(const MessageReader& in, QuestionResolver& resolver);

// Reads how plans become jobs, and checks the limits.
JobTemplate ReadJob(const MessageReader& in);

// Reads the rows of the field `history`.
std::vector<HistoryRow> ReadHistory(const MessageReader& in, const Knowledge& knowledge);

// Returns OK if no mistake was found. Otherwise the status lists the first mistake of each field,
// but none inside a message that is a mistake itself: if the model is missing, there is no
// complaint about its layer count.
absl::Status FoundStatus(const std::vector<FieldViolation>& found);

// Reads the field `cost_model`. Returns nullopt for the built-in model.
std::optional<CostModelRequest> ReadCostModelRequest(const MessageReader& in);

}  // namespace meshwright
