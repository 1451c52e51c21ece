#pragma once

#include <map>
#include <string>

#include "meshwright/v1/service.pb.h"

namespace meshwright {

// What a report says besides the answer itself.
struct ReportNotes {
  bool has_color = false;
  std::string recorded = {};  // where the study is kept; empty: nowhere
};

// A study for people: best plans, gain, pruning, breakdown of the winner, defaults, warnings and
// launch flags; or, when nothing fits, what binds and what would help. Takes only what `answer`
// holds, so that embedded and served studies read alike.
std::string StudyReport(const v1::GetStudyResponse& answer, const ReportNotes& notes);

// The time of a step and the memory of its busiest device, largest part first.
std::string BreakdownReport(const v1::Estimate& estimate);

// Who made the step times, where it was not the built-in model; else empty.
std::string CostModelLine(const v1::Estimate& estimate);

}  // namespace meshwright
