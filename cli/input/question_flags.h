#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "cli/input/cluster_flags.h"
#include "cli/input/launch_file.h"

namespace CLI {
class App;
}

namespace meshwright {

// The flags by which every command takes a question: in files, in a launch script, or as facts.
struct QuestionFlags {
  LaunchFileFlags from = {};
  std::string model = {};  // paths; model and workload may be empty beside a launch script
  std::string workload = {};
  std::optional<int> sequence_length = {};    // instead of the workload's
  std::optional<int> global_batch_size = {};  // as well
  ClusterFlags cluster = {};
  std::string framework = {};          // empty: that of the workload
  std::string framework_version = {};  // empty: the workload's, or the framework's own
  bool operator==(const QuestionFlags&) const = default;
};

// Adds --from and --set, without a check that --from is stated.
void AddLaunchFileOptions(CLI::App& command, LaunchFileFlags& flags);

// Adds the options, in a group of the help. `flags` must outlive `command`.
void AddQuestionOptions(CLI::App& command, QuestionFlags& flags);

// An option that may name a launch script beside --from.
struct OtherScript {
  std::string_view flag = {};
  std::string path = {};  // empty: not stated
};

// Throws CLI::RequiredError that names a flag that is missing, unless a launch script stands in for
// it, and CLI::RequiresError for --set without a script. A cluster that is missing is left to
// ReadCluster.
void RequireQuestion(const QuestionFlags& flags, const OtherScript& other);

// Lets --set be stated without --from. RequireQuestion then checks that there is a script.
void AllowVariablesOfOtherScript(CLI::App& command);

}  // namespace meshwright
