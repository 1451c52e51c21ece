#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "estimator/model/analytic_model.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_request.h"

namespace meshwright {

// The step of one given plan over time, as it is simulated; its step time is EvaluatePlan's.
// `history` calibrates it.
absl::StatusOr<Timeline> TimelineOfPlan(const EvaluateRequest& request, const Knowledge& knowledge,
                                        const std::vector<HistoryRow>& history);

// The timeline in the trace event format that Perfetto and chrome://tracing open
// (https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU): one thread a
// device, times in microseconds.
std::string TraceEvents(const Timeline& timeline);

}  // namespace meshwright
