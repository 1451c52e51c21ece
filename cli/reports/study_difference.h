#pragma once

#include <string>

#include "meshwright/v1/service.pb.h"

namespace meshwright {

// Returns the fields in which the questions of two studies differ, and both plans to launch with
// their difference term by term.
v1::StudyDifference CompareStudies(const v1::GetStudyResponse& first,
                                   const v1::GetStudyResponse& second);

// Shows it to people. Sentences are broken at `columns`.
std::string StudyDifferenceReport(const v1::StudyDifference& difference, int columns);

}  // namespace meshwright
