#pragma once

#include <CLI/App.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/program/field_names.h"
#include "cli/program/program.h"
#include "meshwright/v1/service.pb.h"

namespace meshwright {

// The flags of `study list` that choose studies.
struct StudyFilterFlags {
  std::string state = {};
  std::string outcome = {};
  std::string text = {};
  std::string chip = {};
  std::optional<std::string> creator = {};  // empty: nobody known
  std::vector<std::string> labels = {};     // "team=llm"
  std::string since = {};
  std::string until = {};
};

void AddStudyFilterOptions(CLI::App& command, StudyFilterFlags& flags);

// Returns the filter that the flags state. INVALID_ARGUMENT for a label without "=".
absl::StatusOr<v1::StudyFilter> FilterOf(const StudyFilterFlags& flags);

// Returns how they name the fields of a ListStudiesRequest.
FieldNames NamesOfStudyFilter();

// Adds `study update`, which names a study, notes something about it or labels it, and `study
// diff`.
void AddReviewCommands(CLI::App& group, Program& program);

}  // namespace meshwright
