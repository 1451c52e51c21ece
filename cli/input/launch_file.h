#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwright/v1/problem.pb.h"
#include "search_space/base/status.h"

namespace meshwright {

// A launch script or a configuration of a framework.
struct LaunchFileFlags {
  std::string path = {};                    // empty: none; "-": stdin
  std::vector<std::string> variables = {};  // values of its variables: "NNODES=16"
  bool operator==(const LaunchFileFlags&) const = default;
};

// The parts of a question that are stated beside the file. They win over the file.
struct StatedBeside {
  std::optional<v1::Model> model = {};
  v1::Workload workload = {};
  v1::Cluster cluster = {};
  std::string framework = {};  // empty: what the file shows
};

// The question that the file asks, completed by the parts that are stated beside it.
struct LaunchQuestion {
  v1::Model model = {};  // empty if the model has mistakes
  std::vector<FieldViolation> model_violations = {};
  v1::Workload workload = {};
  v1::Plan plan = {};
  std::vector<std::string> notes = {};  // for people, one line each
};

// Reads the text of a file. INVALID_ARGUMENT names every key that is wrong as "from.<key>". The
// mistakes of the model are keys that contradict the one beside the file, and sizes that neither
// states.
absl::StatusOr<LaunchQuestion> ReadLaunchText(const LaunchFileFlags& flags, std::string_view text,
                                              const StatedBeside& beside);

// Reads the file too.
absl::StatusOr<LaunchQuestion> ReadLaunchFile(const LaunchFileFlags& flags,
                                              const StatedBeside& beside);

}  // namespace meshwright
