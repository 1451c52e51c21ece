#pragma once

#include <string>
#include <vector>

namespace meshwright {

// A text that is saved under a name beside the training script.
struct ConfigFile {
  std::string name = {};
  std::string text = {};
  bool operator==(const ConfigFile&) const = default;
};

// The configuration with which a training framework runs one plan.
struct LaunchConfig {
  std::string text = {};       // command-line flags, or a file of the framework
  std::string file_name = {};  // the name of that file; empty: flags that follow the command
  std::string versions = {};   // versions of the framework: "0.12 to 0.14"
  std::string command = {};    // starts the job; with $MASTER_ADDR, on every node
  // Everything that a run needs and the text does not say, each with its name in the framework.
  std::vector<std::string> left_out = {};
  std::vector<ConfigFile> other_files = {};  // that the command or the text refers to
  bool operator==(const LaunchConfig&) const = default;
};

}  // namespace meshwright
