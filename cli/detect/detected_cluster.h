#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "search_space/spec/cluster.h"
#include "server/process/command.h"

namespace meshwright {

// A cluster as a tool describes it. What the tool does not say is left out, so that the answer
// lists the default in its place.
struct DetectedCluster {
  ClusterRequest cluster = {};          // of one pool
  std::vector<std::string> notes = {};  // what was found, and what was left out; whole sentences
};

// The facts that the user has stated beside the place to look at. Tools need not say these.
struct StatedFacts {
  bool has_chip = false;
  bool has_device_count = false;
};

// Runs a command of a tool; RunCommand in the program, recorded outputs in tests.
using CommandRunner =
    std::function<absl::StatusOr<CommandOutput>(const std::vector<std::string>& arguments)>;

// Returns what a tool has printed as clean text: names in it come from drivers and sites, and end
// in notes, errors and the names of chips.
std::string CleanOutput(const CommandOutput& output);

// Runs a command and returns what it prints (CleanOutput). NOT_FOUND if its program is not
// installed; UNAVAILABLE with the last line of its errors if it fails, since tools repeat
// themselves before it.
absl::StatusOr<std::string> Ask(const std::vector<std::string>& command, const CommandRunner& run);

// Equal nodes of a scheduler.
struct NodeKind {
  std::string chip = {};  // as the scheduler names it; empty: it does not say
  int devices = 0;        // of a node
  auto operator<=>(const NodeKind&) const = default;
};

// Returns a kind as people read it: "8 x h100", "no devices".
std::string KindText(const NodeKind& kind);

}  // namespace meshwright
