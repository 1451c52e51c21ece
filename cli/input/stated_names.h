#pragma once

#include <string>

#include "cli/input/cluster_flags.h"
#include "cli/input/history_flags.h"
#include "cli/input/input_files.h"
#include "cli/input/question_flags.h"
#include "cli/input/stated_case.h"
#include "cli/program/field_names.h"

namespace meshwright {

// Each returns how the flags of a command state the fields of its request (NamedAsStated).
FieldNames NamesOf(const ClusterFlags& flags);
FieldNames NamesOf(const QuestionFlags& flags);
FieldNames NamesOf(const TuneFlags& flags);
FieldNames NamesOf(const CaseFlags& flags);
FieldNames NamesOf(const ReportFlags& flags);
FieldNames NamesOf(const MeasurementFlags& flags);

// Returns the name of a file of rows that --history states; none if the path is empty.
FieldNames HistoryNames(const std::string& path);

// Returns the names of a case in a file.
FieldNames CaseNames(const std::string& flag, const std::string& path);

}  // namespace meshwright
