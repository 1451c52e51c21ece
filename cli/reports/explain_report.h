#pragma once

#include <string>

#include "meshwright/v1/service.pb.h"

namespace meshwright {

// Shows people why a plan is or is not the best, in lines of at most `columns`.
std::string ExplainReport(const v1::ExplainPlanResponse& explanation, int columns);

}  // namespace meshwright
