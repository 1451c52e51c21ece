#pragma once

#include <string>

#include "meshwright/v1/service.pb.h"

namespace meshwright {

// Show lists to people in lines of at most `columns`.
std::string StudyTable(const v1::ListStudiesResponse& studies, int columns);
std::string PlanTable(const v1::ListPlansResponse& plans, int columns);
std::string TrialTable(const v1::ListTrialsResponse& trials, int columns);
// Includes the logs of attempts that have them.
std::string AttemptTable(const v1::ListAttemptsResponse& attempts, int columns);
std::string DeletionText(const v1::DeleteStudyResponse& deleted);
std::string EventLine(const v1::WatchStudyResponse& event);

}  // namespace meshwright
