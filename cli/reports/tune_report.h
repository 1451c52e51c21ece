#pragma once

#include <map>
#include <string>

#include "meshwright/v1/service.pb.h"

namespace meshwright {

// Notes that a report adds to the answer.
struct ReportNotes {
  bool has_color = false;
  int columns = 100;        // width of a line; a text that is to be copied may be longer
  bool is_verbose = false;  // also shows defaults, what was pruned and where time and memory go
  bool lists_all_kinds = false;  // however long the list is, because their number was asked for
  std::string recorded = {};     // place of the study's record; empty if there is none
  int brevity = 0;  // 0 to 5, set by StudyReport: how much is left to --verbose to fit a screen
};

// Shows a study to people: what to launch and why, the kinds of plans, the gain, warnings and
// launch flags; or, if nothing fits, what binds and what would help. Unless it is verbose, it is
// shortened to the 40 lines of a screen, as far as that goes without cutting the launch flags; the
// settings of a file then stand together in lines. It uses nothing but `answer`, so that embedded
// and served studies read alike.
std::string StudyReport(const v1::GetStudyResponse& answer, const ReportNotes& notes);

// Shows the time of a step and the memory of its busiest device, the largest part first.
std::string BreakdownReport(const v1::Estimate& estimate);

}  // namespace meshwright
