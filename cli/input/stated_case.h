#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "cli/input/input_files.h"
#include "cli/input/question_flags.h"
#include "meshwright/v1/estimate.pb.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/resolved_study.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace meshwright {

// The flags that state one case: a file with the whole case, or a question and the plan for it.
struct CaseFlags {
  QuestionFlags question = {};
  std::string plan = {};  // path; a case, or the plan of the question; may be empty beside --from
};

// Adds --plan and the options of the question. Returns that of --plan.
CLI::Option* AddCaseOptions(CLI::App& command, CaseFlags& flags);

// Refuses an option beside those of a case, which are another way to say what is meant.
void ExcludeCase(CLI::App& command, CLI::Option& other);

// Throws CLI::RequiredError that names what is missing of a case.
void RequireCase(const CaseFlags& flags);

// Returns true if a question is stated by flags, so that --plan is the plan for it.
bool HasQuestion(const CaseFlags& flags);

// Reads the question and its plan: that of --plan, in our keys or as a launch script, or else that
// of --from. The id of the case is the name of the file that has the plan.
Parsed<v1::EvaluateCase> ReadStatedCase(const CaseFlags& flags, std::string_view site_chips);

// Reads a case in either way, and prints the notes on how it was read.
Parsed<v1::EvaluateCase> ReadCase(const CaseFlags& flags, std::string_view site_chips);

// Reads and resolves it.
absl::StatusOr<ResolvedCase> ResolveStatedCase(const CaseFlags& flags, const Knowledge& knowledge,
                                               std::string_view site_chips);

}  // namespace meshwright
