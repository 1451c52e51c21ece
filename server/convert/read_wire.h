#pragma once

#include <optional>
#include <string_view>
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

// The parts of a request, each from a reader of its message (proto/meshwright/v1/problem.proto).
// They find what is missing and words that no table has; limits are Validate's and CheckQuestion's.
ModelSpec ReadModel(const MessageReader& in);
WorkloadRequest ReadWorkload(const MessageReader& in);
ClusterRequest ReadCluster(const MessageReader& in);
PlanRequest ReadPlan(const MessageReader& in);

// A measured result, from any message with a HistoryRow's fields: what is missing, the limits, and
// whether the question allows the plan. A row without a mistake is resolved.
HistoryRow ReadHistoryRow(const MessageReader& in, QuestionResolver& resolver);

// Reads how plans become jobs, and checks its limits.
JobTemplate ReadJob(const MessageReader& in);

// Reads the rows of the field `history`.
std::vector<HistoryRow> ReadHistory(const MessageReader& in, const Knowledge& knowledge);

// One mistake a field, the first; none inside a message that is a mistake itself: a model that is
// missing needs no complaint about its layer count. OK when nothing was found.
absl::Status FoundStatus(const std::vector<FieldViolation>& found);

// Its `cost_model`; nothing: the built-in model.
std::optional<CostModelRequest> ReadCostModelRequest(const MessageReader& in);

}  // namespace meshwright
