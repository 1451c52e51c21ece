#pragma once

#include <string>

#include "meshwright/v1/service.pb.h"

namespace meshwright {

// Shows people the text of a plan's export with the command that starts it. The framework has an
// export. Its own lines stay as they are; the command is broken at `columns`.
std::string ExportText(const v1::RankedPlan& ranked, const std::string& framework, int columns);

// Returns the versions of the framework that an export is for and everything that it does not say,
// in lines of at most `columns`. Empty if the answer is of a server that sends no such facts.
std::string LaunchNotes(const v1::RankedPlan& ranked, const std::string& framework, int columns);

}  // namespace meshwright
