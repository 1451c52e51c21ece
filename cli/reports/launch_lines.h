#pragma once

#include <string>

#include "meshwright/v1/service.pb.h"

namespace meshwright {

// Returns the command that starts a plan, in lines that a shell reads as one and of at most
// `columns`, with the flags if the text of the plan's export are flags. The plan has a launch for
// the framework.
std::string LaunchCommand(const v1::RankedPlan& ranked, const std::string& framework, int columns);

// How a report shows files: as they are, or with several settings in a line and the names only of
// the files beside them.
enum class FileForm { kWhole, kShort };

// Shows people the text of a plan's export with the command that starts it. The framework has an
// export. The lines of whole files stay as they are; everything else is broken at `columns`.
std::string ExportText(const v1::RankedPlan& ranked, const std::string& framework, int columns,
                       FileForm form = FileForm::kWhole);

// Returns the versions of the framework that an export is for and everything that it does not say,
// in lines of at most `columns`. Empty if the answer is of a server that sends no such facts.
std::string LaunchNotes(const v1::RankedPlan& ranked, const std::string& framework, int columns);

// Returns the same in sentences, with only the number of things that it does not say.
std::string ShortLaunchNotes(const v1::RankedPlan& ranked, const std::string& framework);

}  // namespace meshwright
