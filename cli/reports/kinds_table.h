#pragma once

#include <string>

#include "meshwright/v1/service.pb.h"

namespace meshwright {

// Shows the first `most` plans of an answer, one line for each kind, and the baseline as line 0
// unless it is plan 1. Each line has the number of plans that it stands for besides its own. Lines
// have at most `columns`.
std::string KindsTable(const v1::TuneResult& result, int columns, int most);

// Says in which fields the plans differ that a line of the table stands for.
std::string LikeLines(const v1::TuneResult& result, int columns);

// Returns true if both are the same plan with the same settings of the workload.
bool IsSame(const v1::RankedPlan& a, const v1::RankedPlan& b);

// Returns the words of a plan, with the settings that the question leaves open.
std::string FullWords(const v1::RankedPlan& ranked);

}  // namespace meshwright
