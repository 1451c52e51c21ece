#pragma once

#include <string>

#include "absl/status/status.h"
#include "cli/reports/tune_report.h"
#include "meshwright/v1/service.pb.h"

namespace meshwright {

// Makes the folder for the files of an answer. One that exists must be empty, so that no files of
// two answers are ever mixed. INVALID_ARGUMENT names what is in it.
absl::Status MakeSaveFolder(const std::string& folder);

// Writes the files of an answer into this folder: `json` as answer.json, report.txt with all that
// the report can say, plots of the step times of the plans and of where the time and the memory of
// plan 1 go, and the plan to launch: the files of its framework, and launch.sh.
absl::Status SaveAnswer(const std::string& folder, const v1::GetStudyResponse& answer,
                        const std::string& json, const ReportNotes& notes);

}  // namespace meshwright
