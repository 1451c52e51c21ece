#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "estimator/model/analytic_model.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/resolved_study.h"
#include "server/tuner/question/study_request.h"

namespace meshwright {

// Returns the simulated step of one given plan over time; its step time is EvaluatePlan's.
// `history` calibrates it, and so do the rows of a store.
absl::StatusOr<Timeline> TimelineOfPlan(const ResolvedCase& asked, const Knowledge& knowledge,
                                        const std::vector<HistoryRow>& history,
                                        const SharedRows& stored = {});

// Returns the timeline in the trace event format that Perfetto and chrome://tracing open
// (https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU). It has one
// thread per device, and times in microseconds.
std::string TraceEvents(const Timeline& timeline);

// A longer trace would be larger than 30 MB, which `meshwright trace` writes to a file.
inline constexpr int kMaxAnsweredOperations = 200'000;

// Returns the trace of TimelineOfPlan as an answer to a caller; INVALID_ARGUMENT if it has more
// than kMaxAnsweredOperations.
absl::StatusOr<std::string> TraceOfPlan(const ResolvedCase& asked, const Knowledge& knowledge,
                                        const std::vector<HistoryRow>& history,
                                        const SharedRows& stored);

}  // namespace meshwright
