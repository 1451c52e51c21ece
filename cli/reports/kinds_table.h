#pragma once

#include <string>

#include "meshwright/v1/service.pb.h"

namespace meshwright {

// Shows the plans of an answer, one line for each kind, and the baseline as line 0; and the plans
// that a line stands for besides its own. Lines have at most `columns`.
std::string KindsTable(const v1::TuneResult& result, int columns);

// Returns the words of a plan, with the settings that the question leaves open.
std::string FullWords(const v1::RankedPlan& ranked);

}  // namespace meshwright
