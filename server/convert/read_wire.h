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
#include "server/tuner/question/problem.h"
#include "server/tuner/question/question_resolver.h"
#include "server/tuner/question/study_request.h"
#include "server/tuner/question/trial.h"

namespace meshwright {

// These functions read the parts of a request from a reader of its message
// (proto/meshwright/v1/problem.proto). They find missing fields and unknown words; limits are
// checked by Validate and ResolveProblem.
ModelSpec ReadModel(const MessageReader& in);
WorkloadRequest ReadWorkload(const MessageReader& in);
ClusterRequest ReadCluster(const MessageReader& in);
PlanRequest ReadPlan(const MessageReader& in);

// Reads the question of any message that has its three parts, and resolves it, so that all its
// mistakes are found.
Question ReadQuestion(const MessageReader& in, QuestionResolver& resolver);

// Reads such a question and leaves the limits to the caller, who resolves it.
Question ReadUncheckedQuestion(const MessageReader& in);

// Reads a measured result from any message that has the fields of HistoryRow. Checks for missing
// fields, limits, and whether the question allows the plan. A row without a mistake is resolved.
HistoryRow ReadHistoryRow(const MessageReader& in, QuestionResolver& resolver);

// Reads how plans become jobs from the trials of a request, and checks the limits. Some launchers
// need a job, and others do not use one.
void ReadTrialJob(const MessageReader& in, TrialRequest& trials);

// Reads the rows of the field `history`.
std::vector<HistoryRow> ReadHistory(const MessageReader& in, QuestionResolver& resolver);

// Returns OK if no mistake was found. Otherwise the status lists the first mistake of each field,
// but none inside a message that is a mistake itself: if the model is missing, there is no
// complaint about its layer count.
absl::Status FoundStatus(const std::vector<FieldViolation>& found);

// Reads the field `cost_model`. Returns nullopt for the built-in model.
std::optional<CostModelRequest> ReadCostModelRequest(const MessageReader& in);

}  // namespace meshwright
